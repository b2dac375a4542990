"""The field's benchmark: OFFSET and the learners of others on the same events in the same order.

    python -m scripts.bench.field [--quick] [--libffm PATH] [--libffm-online PATH] [--readme]

Every learner scores each chunk before it trains on it, in a process of its own with one thread on
one core. All get the same number of settings on a development seed (on MovieLens: on its first
part); the best is run on the report's seeds, then with ten times its step size. The same command
resumes after a stop: results are small files in --out. Learners that are not installed are left
out, and the page says so: scripts/setup.sh --peers and --torch install all but libFFM and Fwumious
Wabbit, which are programs of your own.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from orchestrator.charts.picture import svg
from scripts.bench.fields.measure import MeasureTask
from scripts.bench.fields.page import FIGURE, chart, page_text
from scripts.bench.fields.peers import BY_NAME, PEERS, FieldPeer
from scripts.bench.fields.plan import (
    FieldStream,
    Machine,
    TaskError,
    batches,
    cost_s,
    read_runs,
)
from scripts.bench.fields.table import FieldRow, FieldTable, read_table, write_table
from scripts.bench.page import load_now, load_sentence, machine
from scripts.bench.regrets.streams import DATA, Size
from scripts.results.readme import ROOT, replace_block
from scripts.results.reproduce import Seeds

PAGE = "scripts/bench/FIELD.md"
TABLE = ROOT / "scripts/bench/fields/results.json"
SEARCH_SEED = 101
REPORT = (1, 2, 3)
MARKET = FieldStream("stormy", Size(24, 5_000), SEARCH_SEED, REPORT)
MOVIELENS = FieldStream("movielens-100k", Size(50, 2_000), SEARCH_SEED, REPORT[:1], 20)
QUICK = Size(4, 400)


@click.command(help=__doc__)
@click.option("--quick", is_flag=True, help="A tiny market, two settings: does everything work?")
@click.option("--peer", "names", multiple=True, type=click.Choice(list(BY_NAME)),
              help="A learner; can be repeated. Default: all.")  # fmt: skip
@click.option("--seeds", default="1-3", show_default=True, type=Seeds(),
              help="Of the report. With others than these nothing is written.")  # fmt: skip
@click.option("--libffm", type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help="ffm-train of libFFM, with ffm-predict beside it.")  # fmt: skip
@click.option("--libffm-online", type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help="The same with random_shuffle removed from its training.")  # fmt: skip
@click.option("--fwumious", type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help="The program fw of Fwumious Wabbit.")  # fmt: skip
@click.option("--out", default="runs/field", show_default=True, type=click.Path(path_type=Path),
              help="Folder of the results.")  # fmt: skip
@click.option("--data", default=DATA, type=click.Path(path_type=Path),
              help="Where `holdfast data fetch` has put MovieLens.")  # fmt: skip
@click.option("--processes", default=os.cpu_count() or 1, show_default=True,
              type=click.IntRange(min=1), help="Searches at the same time.")  # fmt: skip
@click.option("--readme", is_flag=True, help=f"Write {PAGE}, its picture and its table.")
@click.option("--page", is_flag=True, help="Run nothing: write the page from its table again.")
def main(
    quick: bool,
    names: tuple[str, ...],
    seeds: tuple[int, ...],
    libffm: Path | None,
    libffm_online: Path | None,
    fwumious: Path | None,
    out: Path,
    data: Path,
    processes: int,
    readme: bool,
    page: bool,
) -> None:
    """Run what is missing, then print the page."""
    if page:
        write_page(read_table(TABLE))
        return
    if readme and (quick or names or seeds != REPORT):
        raise click.UsageError("--readme needs the whole benchmark: no --quick, --peer or --seeds")
    given = {"libffm": libffm, "libffm_online": libffm_online, "fwumious": fwumious}
    programs = {name: str(path.resolve()) for name, path in given.items() if path is not None}
    on = Machine(out.resolve(), data.resolve(), programs, processes, click.echo)
    peers = [BY_NAME[name] for name in names] or list(PEERS)
    try:
        table = measured(on, peers, streams(quick, seeds, data), 1 if quick else 6)
    except TaskError as failed:
        raise click.ClickException(f"{failed}; the same command resumes") from None
    except KeyboardInterrupt:
        raise click.ClickException("stopped; the same command resumes") from None
    click.echo(page_text(table))
    if readme:
        write_table(TABLE, table)
        write_page(table)


def streams(quick: bool, seeds: tuple[int, ...], data: Path) -> list[FieldStream]:
    """The streams that can be had here."""
    if quick:
        return [replace(MARKET, size=QUICK, seeds=seeds[:1])]
    real = replace(MOVIELENS, seeds=seeds[:1])
    has_real = (data / f"{real.name}.parquet").exists()
    return [replace(MARKET, seeds=seeds), *([real] if has_real else [])]


def measured(
    on: Machine, peers: Sequence[FieldPeer], where: Sequence[FieldStream], steps: int
) -> FieldTable:
    """Search, report, and ten times the step size, for all learners that are here."""
    here = [peer for peer in peers if peer.version(on.programs)]
    before = load_now()
    searches = {(p.name, s.name): _search(on, p, s, steps) for s in where for p in here if p.step}
    planned = [task for tasks in searches.values() for task in tasks]
    _say_how_long(on, planned, here, where)
    on.run(planned, "search")
    best = {key: _best(tasks) for key, tasks in searches.items()}

    def final(peer: FieldPeer, stream: FieldStream, hot: bool) -> list[MeasureTask]:
        setting = best.get((peer.name, stream.name), {})
        chosen = peer.hot(setting) if hot else setting
        return [on.task(peer.name, stream, seed, [chosen], 0) for seed in stream.seeds]

    every = [(peer, stream) for stream in where for peer in here]
    reports = [task for pair in every for task in final(*pair, hot=False)]
    on.run(reports, "report", at_once=1 if steps > 1 else 0)  # alone, for its speed
    hot = [task for peer, stream in every if peer.step for task in final(peer, stream, hot=True)]
    on.run(hot, "ten times the step size")
    rows = tuple(
        FieldRow(
            peer.name,
            stream.name,
            peer.version(on.programs),
            setting := best.get((peer.name, stream.name), {}),
            peer.at_edge(setting) and steps > 1,
            stream.first,
            tuple(read_runs(task)[0] for task in final(peer, stream, hot=False)),
            tuple(read_runs(t)[0] for t in final(peer, stream, hot=True)) if peer.step else (),
        )
        for peer, stream in every
    )
    missing = {peer.name: peer.install for peer in peers if peer not in here}
    seeds = {stream.name: list(stream.seeds) for stream in where}
    load = load_sentence(before, load_now())
    return FieldTable(rows, missing, seeds, 2 * steps, machine(), load)


def _search(on: Machine, peer: FieldPeer, stream: FieldStream, steps: int) -> list[MeasureTask]:
    """All settings, a few in each process; with one step size, that of the middle."""
    tried = peer.settings if steps > 1 else peer.settings[len(peer.settings) // 2 :][:2]
    only, seed = stream.search_chunks, stream.search_seed
    return [on.task(peer.name, stream, seed, few, only) for few in batches(tried)]


def _best(tasks: Sequence[MeasureTask]) -> dict[str, float | str]:
    """The setting with the largest served gain; of equals the first."""
    runs = [run for task in tasks for run in read_runs(task)]
    return dict(max(runs, key=lambda run: run.gain()).setting)


def _say_how_long(
    on: Machine,
    searches: Sequence[MeasureTask],
    here: Sequence[FieldPeer],
    where: Sequence[FieldStream],
) -> None:
    final = [on.task(p.name, s, seed, [{}], 0) for p in here for s in where for seed in s.seeds]
    runs = sum(map(cost_s, final))
    spent = (sum(map(cost_s, searches)) + runs) / on.processes + runs
    on.say(f"{len(here)} learners; all of it takes about {spent / 60:.0f} min on a quiet machine")


def write_page(table: FieldTable) -> None:
    """The block of the page, and its picture."""
    replace_block(PAGE, "field", page_text(table))
    (ROOT / PAGE).with_name(FIGURE).write_bytes(svg(chart(table)))


if __name__ == "__main__":
    main()
