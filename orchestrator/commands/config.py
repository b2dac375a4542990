"""`holdfast config`: the config with all defaults filled in, and how long a cycle takes."""

from typing import TYPE_CHECKING

import click

from orchestrator.commands.options import code_option, config_argument, set_option
from orchestrator.config.file import load_config
from orchestrator.config.rules import searched
from orchestrator.config.schema import RunConfig
from orchestrator.pool.ray_env import local_cores
from orchestrator.validation.yaml import dump

if TYPE_CHECKING:  # slow to load
    from orchestrator.offline.cycle_time import CycleTime

ASSUMED_EVENTS = 20_000
"""Events of a cycle where neither the source nor the user says how many."""
DRIVER_S = 0.05
"""About what a cycle of so many events takes beyond its training, on one machine.

Of more events in proportion, which is rather too much: a part of it is the same for any number.
"""
WEEK_H = 7 * 24


@click.command("config", epilog="Example: holdfast config run.yaml --cores 16 --price 0.04")
@config_argument
@set_option
@code_option
@click.option("--cores", type=click.IntRange(min=1),
              help="Cores for the time. Default: `actors`, else this machine's.")  # fmt: skip
@click.option("--events", type=click.IntRange(min=1),
              help="Events of a cycle. Default: the config's, where it says how many.")  # fmt: skip
@click.option("--price", type=click.FloatRange(min=0), metavar="PRICE",
              help="Price of a core hour, in any currency: adds the cost.")  # fmt: skip
@click.option("--no-time", is_flag=True, help="Print the config only; measure nothing.")
def command(
    config_path: str,
    assignments: tuple[str, ...],
    cores: int | None,
    events: int | None,
    price: float | None,
    no_time: bool,
) -> None:
    """Check CONFIG, print it as YAML with all defaults, and say how long a cycle takes.

    The time goes to standard error. It comes from a measurement of about a second on this machine,
    with the rule of the first arm, and is that of training alone. It assumes that cores are as fast
    as this one and free, and that every instance trains to the end: aborted ones take less.
    """
    config = load_config(config_path, assignments)
    click.echo(shown_text(config), nl=False)
    if no_time or config.trainer.kind != "offset":  # OFFSET's kernel is what is measured
        return
    from orchestrator.offline.cycle_time import cycle_time  # loads the kernels

    cores = cores or (local_cores() if config.actors == "auto" else config.actors)
    known = events or config.source.events_of_a_cycle
    found = cycle_time(config, known or ASSUMED_EVENTS, cores)
    note = "" if known else " (assumed: --events N)"
    click.echo(f"holdfast: {time_line(found, note, price)}", err=True)


def shown_text(config: RunConfig) -> str:
    """The config as YAML, without the keys of arms that say nothing.

    A parameter that the rule leaves to `search.ranges` is shown there, with the range in use.
    """
    data = config.model_dump(mode="json")
    for arm, shown in zip(config.arms, data["arms"], strict=True):
        if arm.family is None:
            del shown["family"]
        for name in searched(arm.rule):
            if shown["rule"].get(name, "") is None:
                del shown["rule"][name]
    return dump(data)


def time_line(found: "CycleTime", note: str, price: float | None) -> str:
    """The time of a cycle in one line, cores without work, and the cost where there is a price."""
    arms = f" × {found.arms} arms" if found.arms > 1 else ""
    driver_s = DRIVER_S * max(1.0, found.events / ASSUMED_EVENTS)
    cost = "" if price is None else f"; {_cost(found, price)}"
    return (
        f"{found.instances} instances{arms} × {found.events:,} events{note} on "
        f"{_cores(found.cores)}: {_duration(found.seconds)} a cycle (training only), plus the "
        f"driver's own time (some {driver_s:.2g} s for {found.events:,} events){_idle(found)}{cost}"
        f"; measured {found.event_s * 1e6:.2g} µs per event and instance on this machine"
    )


def _idle(found: "CycleTime") -> str:
    """A warning where there are more cores than instances."""
    trained = found.instances * found.arms
    if trained >= found.cores:
        return ""
    idle = found.cores - trained
    what = "search.instances" + (" × arms" if found.arms > 1 else "")
    have = "have" if idle > 1 else "has"
    return f"; {_cores(idle)} {have} nothing to do: {what} is {trained}"


def _cost(found: "CycleTime", price: float) -> str:
    """Of training alone, and of cores that are paid while they wait for the next chunk, too."""
    hour, training = found.cores * price, 1000 * found.core_hours * price
    stay, paid = ("stay", "cost") if found.cores > 1 else ("stays", "costs")
    return (
        f"at {price:g} per core hour, {_cores(found.cores)} that {stay} up {paid} {_amount(hour)} "
        f"an hour, {_amount(hour * WEEK_H)} a week; training alone costs {_amount(training)} per "
        "1,000 cycles"
    )


def _cores(count: int) -> str:
    return f"{count} core{'s' * (count > 1)}"


def _amount(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def _duration(seconds: float) -> str:
    if seconds < 0.05:
        return "less than 0.1 s"
    if seconds < 120:
        return f"about {round(seconds, 1):g} s" if seconds < 10 else f"about {seconds:.0f} s"
    return f"about {seconds / 60:.0f} min" if seconds < 7200 else f"about {seconds / 3600:.1f} h"
