"""How far every way of tuning is from the best fixed setting in hindsight, at equal compute.

    python -m scripts.bench.regret [--quick] [--seeds 1-5] [--readme]

Runs the methods of regrets/methods.py on the streams of regrets/streams.py, several streams at a
time, in processes of this machine without Ray. The same command resumes after a stop: a result is
a small file for each stream, seed and method. Choose constants on seeds from 101 on only; 1 to 5
are those of the report.

--peers adds Ray Tune's PBT and PB2, Optuna's TPE and FLAML's ChaCha (regrets/peers.py), one after
the other. scripts/setup.sh --peers installs them.
"""

import multiprocessing
import os
import signal
import time
from itertools import product
from pathlib import Path

import click

from scripts.bench.page import load_now, load_sentence
from scripts.bench.regrets.methods import RULE
from scripts.bench.regrets.peer_table import field_of, peer_tables
from scripts.bench.regrets.peers import INSTALL, not_installed, run_peers
from scripts.bench.regrets.results import BenchTask, Result, read_results, write_result
from scripts.bench.regrets.streams import DATA, Size, open_stream, stream_names
from scripts.bench.regrets.table import Comparison, regret_tables
from scripts.results.readme import BENCH, replace_block

QUICK = Size(cycles=8, events=1_000)


def _seeds(context: click.Context, option: click.Parameter, text: str) -> list[int]:
    first, _, last = text.partition("-")
    if not (first.isdecimal() and (last or first).isdecimal()):
        raise click.BadParameter(f"must be a number, or a range such as 101-105, but is {text!r}")
    return list(range(int(first), int(last or first) + 1))


def _size(context: click.Context, option: click.Parameter, text: str) -> Size:
    cycles, _, events = text.partition("x")
    if not (cycles.isdecimal() and events.isdecimal() and int(cycles) > 1 and int(events) > 0):
        raise click.BadParameter(f"must be CYCLESxEVENTS, such as 48x5000, but is {text!r}")
    return Size(int(cycles), int(events))


def _check_peers(context: click.Context, option: click.Parameter, wanted: bool) -> bool:
    missing = ", ".join(not_installed()) if wanted else ""
    if missing:
        raise click.BadParameter(f"needs {missing}: install with {INSTALL}")
    return wanted


@click.command(help=__doc__)
@click.option("--quick", is_flag=True, help="Small streams, one seed: does everything work?")
@click.option("--seeds", default="101-105", show_default=True, callback=_seeds, help="A range.")
@click.option("--stream", "streams", multiple=True, help="A stream; can be repeated. Default: all.")
@click.option("--size", default=f"{Size().cycles}x{Size().events}", show_default=True,
              callback=_size, help="Cycles of the markets, and events of a cycle.")  # fmt: skip
@click.option("--peers", is_flag=True, callback=_check_peers, help="Other tuners too.")
@click.option("--rule", default=RULE, show_default=True, help="The rule that all methods train by.")
@click.option("--out", default="runs/regret", show_default=True, type=click.Path(path_type=Path),
              help="Folder of the results.")  # fmt: skip
@click.option("--data", default=DATA, type=click.Path(path_type=Path),
              help="Where `holdfast data fetch` has put the data sets.")  # fmt: skip
@click.option("--processes", default=os.cpu_count() or 1, show_default=True,
              type=click.IntRange(min=1), help="Streams at the same time.")  # fmt: skip
@click.option("--readme", is_flag=True, help=f"Write the tables to {BENCH}; with --peers, theirs.")
def main(
    quick: bool,
    seeds: list[int],
    streams: tuple[str, ...],
    size: Size,
    peers: bool,
    rule: str,
    out: Path,
    data: Path,
    processes: int,
    readme: bool,
) -> None:
    """Run what is missing, then print the tables."""
    size, names = QUICK if quick else size, streams or stream_names(data)
    planned = [BenchTask(*one, rule, size) for one in product(names, seeds[:1] if quick else seeds)]
    out, data, before = out.resolve(), data.resolve(), load_now()
    run_all(planned, out, data, processes)
    found = {(one.stream, one.seed): read_results(one, out) for one in planned}
    text = f"{_conditions(planned)}\n\n{regret_tables(Comparison.of(found))}"
    if peers:
        run_peers(planned, out, data, click.echo)
        click.echo(f"{text}\n")
        text = peer_tables(*field_of(planned, found, out))
    text = f"{text}\n\n{load_sentence(before, load_now())}"
    click.echo(text)
    if readme:
        replace_block(BENCH, "peers" if peers else "regret", text)


def run_all(planned: list[BenchTask], out: Path, data: Path, processes: int) -> None:
    """Run the methods that have no result yet, and say how far it is."""
    missing = [task for task in planned if task.missing(out)]
    began = time.monotonic()
    context = multiprocessing.get_context("spawn")  # threads and numba do not survive a fork
    with context.Pool(processes, _ignore_interrupts) as pool:
        work = [(task, out, data) for task in missing]
        try:
            for number, said in enumerate(pool.imap_unordered(_measure, work), 1):
                spent = time.monotonic() - began
                left = spent * (len(missing) / number - 1)
                times = f"{spent / 60:.1f} min, about {left / 60:.1f} left"
                click.echo(f"[{number}/{len(missing)}, {times}] {said}")
        except KeyboardInterrupt:
            raise click.ClickException("stopped; the same command resumes it") from None


def _measure(work: tuple[BenchTask, Path, Path]) -> str:
    """Run the missing methods on a stream; one line for the person who waits."""
    task, out, data = work
    stream = open_stream(task.stream, task.seed, task.size, data)
    said = []
    for method in task.missing(out):
        result = Result.of(stream, method.run(stream, task.rule))
        write_result(task.path(out, method), result)
        said.append(f"{method.name} {max(result.gains.values()):.2%}")
    return f"{task.stream} {task.seed}: {', '.join(said)}"


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its workers


def _conditions(planned: list[BenchTask]) -> str:
    size, seeds = planned[0].size, sorted({task.seed for task in planned})
    return (
        f"Rule {planned[0].rule}, seeds {seeds[0]} to {seeds[-1]}, markets of {size.cycles} cycles "
        f"of {size.events:,} events on average."
    )


if __name__ == "__main__":
    main()
