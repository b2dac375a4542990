"""`holdfast report`: the retained fraction and every figure of the paper, from any run."""

import json

import click

from divergence.errors import InputError
from orchestrator.commands.options import json_option


@click.command("report", epilog="Example: holdfast report runs/seed-1 runs/seed-2 --out report")
@click.argument("runs", metavar="RUN...", nargs=-1, required=True)
@click.option("--out", metavar="DIR",
              help="Where to write. Default: into RUN; of several runs, ./report.")  # fmt: skip
@click.option("--baseline", metavar="ARM",
              help="What others are compared with. Default: the first arm with l2.")  # fmt: skip
@click.option("--challenger", metavar="ARM",
              help="Stands for the paper's rule. Default: the first entropic arm.")  # fmt: skip
@click.option("--aborts", metavar="N", default=0, type=click.IntRange(min=0),
              help="Train N aborted instances of each run again, to show their vectors; they are "
              "kept for later reports.")  # fmt: skip
@click.option("--abort", "asked", metavar="ARM:CYCLE:INSTANCE", multiple=True,
              help="Likewise this aborted instance; may be given several times.")  # fmt: skip
@click.option("--ab", "ab_folder", metavar="DIR", help="Add the A/B test that `ab run` left there.")
@json_option
def command(
    runs: tuple[str, ...],
    out: str | None,
    baseline: str | None,
    challenger: str | None,
    aborts: int,
    ab_folder: str | None,
    asked: tuple[str, ...],
    as_json: bool,
) -> None:
    """Write report.html, figures/ and tables of one or several runs, and show a summary.

    From the journals alone, at any time: also of a run that goes on.
    """
    from rich.console import Console

    from orchestrator.ab.folder import ab_section
    from orchestrator.report.aborts import asked_for, kept
    from orchestrator.report.load import load_runs
    from orchestrator.report.terminal import summary, summary_data
    from orchestrator.report.write import compute, write
    from orchestrator.storage.open import open_store
    from orchestrator.storage.output import Output

    loaded = load_runs(runs)
    output = Output(out or (runs[0] if len(set(runs)) == 1 else "report"))
    if aborts or asked:
        from orchestrator.report.retrain import keep_aborts  # loads the kernels

        for line in keep_aborts(loaded.runs, aborts, list(map(asked_for, asked)), output):
            click.echo(f"holdfast: {line}", err=True)
    aborted = kept(open_store(output.uri), loaded.runs)
    tests = [] if ab_folder is None else [ab_section(open_store(ab_folder))]
    report = compute(loaded, aborted, baseline, challenger, tests)
    written = write(report, output)
    if as_json:
        click.echo(json.dumps(summary_data(report.study, report.sections), ensure_ascii=False))
    else:
        console = Console(width=None if Console().is_terminal else 160)
        console.print(summary(report.study, report.sections, report.refused))
        click.echo(f"report: {output.uri}/report.html ({len(written)} files)")
    if report.refused:
        raise InputError("\n".join(report.refused))
