"""`holdfast ab`: the online A/B test, in the marketplace or from daily counts."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from orchestrator.commands.options import config_argument, json_option, set_option

if TYPE_CHECKING:
    from orchestrator.ab.counts import Trial
    from orchestrator.ab.summary import Summary


@click.group("ab")
def command() -> None:
    """A/B tests: run one in the simulated marketplace, or analyse daily counts."""


@command.command("run", epilog="Example: holdfast ab run configs/ab-test.yaml --out runs/ab-test")
@config_argument
@click.option("--out", metavar="DIR", help="Folder or URI. Default: runs/<name of CONFIG>.")
@click.option("--jobs", default=1, show_default=True, type=click.IntRange(min=1),
              help="Trials to run in parallel, each on its own core.")  # fmt: skip
@set_option
@json_option
def run_command(
    config_path: str, out: str | None, jobs: int, assignments: tuple[str, ...], as_json: bool
) -> None:
    """Run the trials of CONFIG, one for each seed and design, and analyse them.

    Run the same command again to continue: it skips finished trials.
    """
    from orchestrator.ab.config import AbConfig
    from orchestrator.ab.runner import run_trials
    from orchestrator.config.file import load_as
    from orchestrator.storage.open import open_store

    config = load_as(AbConfig, config_path, assignments)
    store = open_store(out or f"runs/{Path(config_path).stem}")
    run_trials(config, store, jobs, lambda line: click.echo(f"holdfast: {line}", err=True))
    _analyse_folder(store.uri, store.uri, as_json)


@command.command("analyse", epilog="Example: holdfast ab analyse counts.csv --out report")
@click.argument("counts", metavar="COUNTS.csv|DIR")
@click.option(
    "--control", metavar="ARM", help="The control arm. Default: the arm that comes first."
)
@click.option("--treatment", metavar="ARM", help="The treatment arm. Default: the other arm.")
@click.option("--out", metavar="DIR", help="Write ab.html, figures/ and counts.csv to this folder.")
@json_option
def analyse_command(
    counts: str, control: str | None, treatment: str | None, out: str | None, as_json: bool
) -> None:
    """Compute the lifts of CTR and CPM from daily counts, or from the trials in DIR.

    DIR is the output folder of `ab run`. The csv file needs the columns day, arm, views, clicks and
    cost (of all clicks of the day), and a column trial if it holds repetitions of the same test.
    """
    if not counts.endswith(".csv"):
        _analyse_folder(counts, out, as_json)
        return
    from orchestrator.ab.counts_file import read_counts
    from orchestrator.ab.summary import summarise

    trials = read_counts(counts, control, treatment)
    _show(trials, [summarise(trials)], out, as_json)


def _analyse_folder(uri: str, out: str | None, as_json: bool) -> None:
    from orchestrator.ab.folder import load, summaries
    from orchestrator.storage.open import open_store

    finished = load(open_store(uri))
    _show([one.trial for one in finished], summaries(finished), out, as_json)


def _show(
    trials: "list[Trial]", summaries: "list[Summary]", out: str | None, as_json: bool
) -> None:
    from rich.console import Console

    from orchestrator.ab.output import data, tables, write
    from orchestrator.ab.section import ab
    from orchestrator.storage.output import Output

    if as_json:
        click.echo(json.dumps(data(summaries), ensure_ascii=False))
    else:
        width = None if Console().is_terminal else 160
        console = Console(width=width, highlight=False, markup=False)  # names are not markup
        for part in (part for summary in summaries for part in tables(summary)):
            console.print(part)
    if out is not None:
        output = Output(out)
        write(trials, [ab(summary) for summary in summaries], output)
        click.echo(f"report: {output.uri}/ab.html", err=as_json)
