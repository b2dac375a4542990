"""Makes the regime map: predictability x width of draws x rule, with several seeds.

Each market is a run of configs/regime.yaml with every rule as an arm. The runs train in processes
of this machine, without Ray. The same command resumes after a stop or a crash. The outcome is one
small table, from which the report, the picture and the results page are made.
"""

import multiprocessing
import os
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import click
import pandas as pd

from orchestrator.charts.picture import svg
from orchestrator.config.file import load_config
from orchestrator.config.schema import RunConfig
from orchestrator.journal.run_folder import prepare
from orchestrator.loop.run import run
from orchestrator.pool.local_pool import LocalPool
from orchestrator.report.load import load_run
from orchestrator.report.regime.chart import map_chart
from orchestrator.report.regime.place import served_gains, settled
from orchestrator.report.regime.table import BASELINE, COLUMNS, RegimeMap, read_map, width_text
from orchestrator.report.sections.retained import HEAVY
from orchestrator.report.study import Study
from orchestrator.storage.lease import hold_lease
from orchestrator.storage.open import open_store
from scripts.results.readme import RESULTS, ROOT, replace_block

CONFIG = "configs/regime.yaml"
TABLE = ROOT / "orchestrator/report/regime/map.csv"
PICTURE = ROOT / "scripts/results/regime-map.svg"
SIGNALS = (0.4, 0.7, 1.0, 1.4)
"""Times the config's interaction_sd and quality_sd."""
WIDTHS = (3.0, 10.0, 30.0, 100.0)
SEEDS = (1, 2, 3)
EVENT_S = 0.6e-6
"""About what an event takes, per instance and arm: training, and its share of everything else."""


@dataclass(frozen=True, slots=True)
class MarketRun:
    """One run of the map."""

    signal: float
    width: float
    seed: int
    sets: tuple[str, ...]
    """What the caller changes in the config."""

    @property
    def name(self) -> str:
        """Its folder's name."""
        return f"signal-{self.signal:g}-width-{self.width:g}-seed-{self.seed}"

    def config(self) -> RunConfig:
        """The config with this market's signals, draws and seeds."""
        path = str(ROOT / CONFIG)
        base = load_config(path, self.sets).source.model_dump()
        sds = [f"source.{n}={self.signal * base[n]:g}" for n in ("interaction_sd", "quality_sd")]
        spread = [f"search.sampler.spread.{n}={self.width:g}" for n in ("eta0", "alpha")]
        seeds = [f"seed={self.seed}", f"source.seed={self.seed}"]
        return load_config(path, (*self.sets, *sds, *spread, *seeds))


@click.command()
@click.option("--out", default="runs/regime", show_default=True, type=click.Path(path_type=Path),
              help="Folder of the runs.")  # fmt: skip
@click.option("--seed", "seeds", multiple=True, default=SEEDS, show_default=True, type=int,
              help="A seed; can be repeated.")  # fmt: skip
@click.option("--processes", default=os.cpu_count() or 1, show_default=True,
              type=click.IntRange(min=1), help="Runs at the same time.")  # fmt: skip
@click.option("--set", "sets", metavar="KEY=VALUE", multiple=True,
              help="Change the config, for a smaller map for example.")  # fmt: skip
@click.option("--table", default=TABLE, type=click.Path(path_type=Path),
              help="Where to write the table. Default: the one of the package, and the results "
              "page with it.")  # fmt: skip
@click.option("--page", is_flag=True, help="Run nothing: write the page from the package's table.")
def main(
    out: Path,
    seeds: tuple[int, ...],
    processes: int,
    sets: tuple[str, ...],
    table: Path,
    page: bool,
) -> None:
    """Run every market of the map, then write its table, picture and page; resumable."""
    if not page:
        planned = [MarketRun(*one, sets) for one in product(SIGNALS, WIDTHS, seeds)]
        train_all(planned, out.resolve(), processes)
        rows = [row for one in planned for row in rows_of(one, out.resolve())]
        table.write_text(pd.DataFrame(rows, columns=list(COLUMNS)).to_csv(index=False))
        click.echo(f"{len(rows)} rows in {table}")
    if table == TABLE:
        write_page(table)


def train_all(planned: Sequence[MarketRun], out: Path, processes: int) -> None:
    """Run what is not finished yet, several at a time, and say how far it is."""
    configs = {one: one.config() for one in planned}
    seconds = {one: _estimate(config) for one, config in configs.items()}
    total = sum(seconds.values()) / processes
    click.echo(f"{len(planned)} runs, {processes} at a time: about {total / 60:.0f} minutes")
    began, done = time.monotonic(), 0.0
    context = multiprocessing.get_context("spawn")  # threads and numba do not survive a fork
    with context.Pool(processes, _ignore_interrupts) as pool:
        tasks = [(one, str(out / one.name)) for one in planned]
        try:
            for number, one in enumerate(pool.imap_unordered(_train, tasks), 1):
                done += seconds[one]
                spent = time.monotonic() - began
                left = spent * (sum(seconds.values()) / done - 1)
                click.echo(
                    f"[{number}/{len(planned)}, {spent / 60:.1f} min, about {left / 60:.1f} min "
                    f"left] {one.name}"
                )
        except KeyboardInterrupt:
            raise click.ClickException("stopped; the same command resumes it") from None


def _train(task: tuple[MarketRun, str]) -> MarketRun:
    one, folder = task
    config = one.config()
    with hold_lease(open_store(folder), lambda _: None) as store:
        run(config, store, prepare(store, config), [], LocalPool)
    return one


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its workers


def _estimate(config: RunConfig) -> float:
    work = (config.cycles or 0) * _events(config) * config.search.instances * len(config.arms)
    return work * EVENT_S


def _events(config: RunConfig) -> int:
    return int(config.source.model_dump()["events_per_cycle"])


def rows_of(one: MarketRun, out: Path) -> list[dict[str, object]]:
    """The table's rows of a finished run, one per rule."""
    loaded = load_run(open_store(str(out / one.name)), one.name)
    study = Study((loaded,))
    gains = served_gains(study, loaded)
    rows = []
    for arm in loaded.config.arms:
        # Like the gain: the first draws come from the full ranges, whatever the width.
        frame = settled(study.of(loaded, arm.name))
        lift = study.pair(loaded, arm.name, BASELINE).lift().reindex(frame.index)
        row = {
            "signal": one.signal,
            "width": one.width,
            "rule": arm.name,
            "seed": one.seed,
            "cycles": loaded.cycles,
            "events": _events(loaded.config),
            "instances": loaded.config.search.instances,
            "predictability": max(gains.values()),
            "retained": frame["retained_fraction"].mean(),
            "useful": frame["useful_fraction"].mean(),
            "heavy": ((1 - frame["retained_fraction"]) > HEAVY).mean(),
            "gain": gains[arm.name],
            "lift": lift.mean(),
        }
        rows.append({k: round(v, 5) if isinstance(v, float) else v for k, v in row.items()})
    return rows


def write_page(table: Path) -> None:
    """The picture, and the block of the results page."""
    regime = read_map(table.read_text(encoding="utf-8"))
    chart = map_chart(regime, ())
    PICTURE.write_bytes(svg(chart))
    shown = "\n".join(_markdown(regime))
    text = f"![{chart.title}]({PICTURE.name})\n\n{chart.caption}\n\n{shown}"
    replace_block(RESULTS, "regime", text)
    click.echo(f"{PICTURE} and {RESULTS}")


def _markdown(regime: RegimeMap) -> Iterator[str]:
    if regime.seeds != SEEDS:
        yield "*A placeholder, from short runs on development seeds.*\n"
    runs = f"{regime.size}, {_seeds(regime)}"
    yield f"Each market: {runs}, without the first quarter of the cycles.\n"
    markets = [market for row in regime.markets for market in row]
    worst, mildest = (
        pick(markets, key=lambda market: market.results[BASELINE].lost) for pick in (max, min)
    )
    for name, market in (("most", worst), ("least", mildest)):
        base = market.results[BASELINE]
        others = ", ".join(
            f"{rule} {market.results[rule].lost:.0%}" for rule in regime.rules if rule != BASELINE
        )
        yield (
            f"{BASELINE} loses {name} at {market}: {base.lost:.0%} of its instances, more "
            f"than a fifth in {base.heavy:.0%} of the cycles. There, {others}; "
            f"{market.served_best()}.\n"
        )
    yield "Useful instances, and in brackets the cycles that lose more than a fifth:\n"
    yield "| predictability | draws | " + " | ".join(regime.rules) + " |"
    yield "|" + "---|" * (2 + len(regime.rules))
    for market in reversed(markets):
        cells = (
            f"{market.results[rule].useful:.0%} ({market.results[rule].heavy:.0%})"
            for rule in regime.rules
        )
        shown = f"{market.predictability:.0%} | {width_text(market.width)}"
        yield f"| {shown} | " + " | ".join(cells) + " |"


def _seeds(regime: RegimeMap) -> str:
    which = ", ".join(map(str, regime.seeds))
    return f"means over seeds {which}" if len(regime.seeds) > 1 else f"seed {which} only"


if __name__ == "__main__":
    main()
