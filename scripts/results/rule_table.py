"""The command of a table that compares rules: run its trials, write the table, make the page."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import pandas as pd

from scripts.bench.regrets.streams import DATA, Size, stream_names
from scripts.results.readme import RESULTS, replace_block
from scripts.results.reproduce import Seeds
from scripts.results.trials import SELECTIONS, RuleTrial, read_result, row_of, run_trials

TABLES = Path(__file__).with_name("tables")
REPORT = (1, 2, 3, 4, 5)
QUICK = Size(cycles=32, events=3_000)
COLUMNS = ("served_logloss", "gain", "retained", "useful", "compute_lost")
KEYS = ["stream", "seed", "select", "rule"]
Rules = Mapping[str, Mapping[str, Any]]
"""By the names that the table shows."""


def planned(
    rules: Rules, streams: tuple[str, ...], seeds: tuple[int, ...], size: Size
) -> list[RuleTrial]:
    """Every rule under both selections, stream by stream."""
    return [
        RuleTrial(stream, seed, select, name, rule, size)
        for stream in streams
        for seed in seeds
        for select in SELECTIONS
        for name, rule in rules.items()
    ]


def table_command(
    name: str, rules: Rules, page_text: Callable[[pd.DataFrame], Iterator[str]]
) -> click.Command:
    """A command that measures these rules, and writes the block `name` of the results page."""

    @click.command()
    @click.option("--out", default=f"runs/{name}", show_default=True,
                  type=click.Path(path_type=Path),
                  help="Folder of the results of single trials.")  # fmt: skip
    @click.option("--seeds", default="1-3", show_default=True, type=Seeds(),
                  help="Such as 1-3 or 101.")  # fmt: skip
    @click.option("--data", default=DATA, type=click.Path(path_type=Path),
                  help="Folder of `holdfast data fetch movielens-100k`.")  # fmt: skip
    @click.option("--processes", default=os.cpu_count() or 1, show_default=True,
                  type=click.IntRange(min=1), help="Streams at the same time.")  # fmt: skip
    @click.option("--only", "only", multiple=True, type=click.Choice(list(rules)), metavar="RULE",
                  help="Measure this rule; the table's other rows stay. Repeatable.")  # fmt: skip
    @click.option("--quick", is_flag=True, help="Short streams, to see that it works: only prints.")
    @click.option("--page", is_flag=True, help="Run nothing: write the page from the table.")
    def main(
        out: Path,
        seeds: tuple[int, ...],
        data: Path,
        processes: int,
        only: tuple[str, ...],
        quick: bool,
        page: bool,
    ) -> None:
        """Measure every rule under both selections, and write the table; resumable."""
        table = TABLES / f"{name}.csv"
        if not page:
            wanted = {one: rules[one] for one in only or rules}
            trials = planned(wanted, stream_names(data), seeds, QUICK if quick else Size())
            run_trials(trials, out, processes, data)
            rows = pd.DataFrame([row_of(trial, read_result(trial, out)) for trial in trials])
            if quick:
                click.echo("\n".join(page_text(rows)))
                return
            if only:
                rows = with_kept_rows(rows, pd.read_csv(table), tuple(rules))
            rows.to_csv(table, index=False, float_format="%.6g")
        text = "\n".join(page_text(pd.read_csv(table)))
        click.echo(text)
        replace_block(RESULTS, name, text)

    return main


def with_kept_rows(
    measured: pd.DataFrame, table: pd.DataFrame, rules: tuple[str, ...]
) -> pd.DataFrame:
    """The measured rows, and those of the table that they do not replace, in the usual order."""
    replaced = table.set_index(KEYS).index.isin(measured.set_index(KEYS).index)
    rows = pd.concat([table[~replaced], measured], ignore_index=True)
    usual: dict[str, Iterable[Any]] = {
        "stream": dict.fromkeys([*table["stream"], *measured["stream"]]),
        "seed": sorted(set(rows["seed"])),
        "select": SELECTIONS,
        "rule": rules,
    }
    places = pd.DataFrame(
        {key: rows[key].map({v: i for i, v in enumerate(usual[key])}) for key in KEYS}
    )
    return rows.loc[places.sort_values(KEYS).index].reset_index(drop=True)


def seeds_note(rows: pd.DataFrame) -> Iterator[str]:
    """A warning where the rows are not of the report's seeds."""
    seeds = sorted(set(rows["seed"]))
    if len(seeds) < 3 or not set(seeds) <= set(REPORT):
        shown = ", ".join(map(str, seeds))
        few = f"*With seed {shown} only, not with three or more of 1 to 5"
        yield f"{few}: a first look, not a result yet.*\n"
