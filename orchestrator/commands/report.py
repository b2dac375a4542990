"""`holdfast report`: the retained fraction and every figure of the paper, from any run."""

import json

import click
from rich.console import Console

from divergence.errors import InputError
from orchestrator.commands.options import json_option
from orchestrator.report.load import load_runs
from orchestrator.report.output import Output
from orchestrator.report.terminal import summary, summary_data
from orchestrator.report.write import compute, write


@click.command("report", epilog="Example: holdfast report runs/seed-1 runs/seed-2 --out report")
@click.argument("runs", metavar="RUN...", nargs=-1, required=True)
@click.option("--out", metavar="DIR", help="Where to write (a folder or URI).  [default: into RUN; "
              "of several runs, ./report]")  # fmt: skip
@click.option("--baseline", metavar="ARM", help="What others are compared with.  [default: the "
              "first arm with l2, else the first]")  # fmt: skip
@click.option("--challenger", metavar="ARM", help="What stands for the paper's algorithm.  "
              "[default: the first entropic arm]")  # fmt: skip
@json_option
def command(
    runs: tuple[str, ...],
    out: str | None,
    baseline: str | None,
    challenger: str | None,
    as_json: bool,
) -> None:
    """Write report.html, figures/ and the tables of one or several runs, and show a summary.

    From the journals alone, at any time: also of a run that goes on.
    """
    loaded = load_runs(runs)
    report = compute(loaded, baseline=baseline, challenger=challenger)
    output = Output(out or (runs[0] if len(set(runs)) == 1 else "report"))
    written = write(report, output)
    if as_json:
        click.echo(json.dumps(summary_data(report.study, report.sections), ensure_ascii=False))
    else:
        console = Console(width=None if Console().is_terminal else 160)
        console.print(summary(report.study, report.sections, report.refused))
        click.echo(f"report: {output.uri}/report.html ({len(written)} files)")
    if report.refused:
        raise InputError("\n".join(report.refused))
