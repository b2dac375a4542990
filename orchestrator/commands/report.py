"""`holdfast report`: whether to switch, and every figure of the paper, for any run."""

import json

import click

from divergence.errors import InputError
from orchestrator.commands.options import code_option, json_option


@click.command(
    "report",
    epilog="Examples: holdfast report runs/mine; holdfast report "
    "runs/old runs/new --baseline old:production --challenger new:holdfast",
)
@click.argument("runs", metavar="RUN...", nargs=-1, required=True)
@click.option("--out", metavar="DIR",
              help="Output folder. Default: RUN itself; for several runs, ./report.")  # fmt: skip
@click.option("--baseline", metavar="[RUN:]ARM",
              help="Compare other arms with this one. Default: the first arm with l2, else the "
              "first.")  # fmt: skip
@click.option("--challenger", metavar="[RUN:]ARM",
              help="The arm to judge: any other, also of another RUN on the same events. Default: "
              "the best; for the paper's claims, the first entropic arm.")  # fmt: skip
@click.option("--aborts", metavar="N", default=0, type=click.IntRange(min=0),
              help="Retrain N aborted instances of each run to show their vectors. Later reports "
              "reuse them.")  # fmt: skip
@click.option("--abort", "requested", metavar="ARM:CYCLE:INSTANCE", multiple=True,
              help="Retrain this aborted instance. Can be repeated.")  # fmt: skip
@click.option(
    "--ab", "ab_folder", metavar="DIR", help="Add the A/B test in DIR, the output of `ab run`."
)
@click.option("--brief", "is_brief", is_flag=True, help="Show a few lines instead of the summary.")
@code_option
@json_option
def command(
    runs: tuple[str, ...],
    out: str | None,
    baseline: str | None,
    challenger: str | None,
    aborts: int,
    ab_folder: str | None,
    requested: tuple[str, ...],
    is_brief: bool,
    as_json: bool,
) -> None:
    """Write report.html, figures/ and tables of one or several runs, and show a summary.

    It begins with advice on two arms, baseline and challenger: switch, stay, or too early. Runs
    that trained on the same events in different ways are compared, too.
    Reads only the journals, so it also works while a run is in progress.
    """
    from rich.console import Console

    from orchestrator.ab.folder import ab_sections
    from orchestrator.report.aborts import load_aborts, parse_abort
    from orchestrator.report.load import load_runs
    from orchestrator.report.terminal import brief, summary, summary_data
    from orchestrator.report.write import compute, write
    from orchestrator.storage.open import open_store
    from orchestrator.storage.output import Output

    loaded = load_runs(runs)
    if not any(run.cycles for run in loaded.runs):
        faults = (fault for run in loaded.runs for fault in run.faults)
        raise InputError("\n".join((*faults, *loaded.refused)))
    output = Output(out or (runs[0] if len(set(runs)) == 1 else "report"))
    if aborts or requested:
        from orchestrator.report.retrain import retrain_aborts  # loads the kernels

        chosen = list(map(parse_abort, requested))
        for line in retrain_aborts(loaded.runs, aborts, chosen, output):
            click.echo(f"holdfast: {line}", err=True)
    aborted = load_aborts(open_store(output.uri), loaded.runs)
    tests = [] if ab_folder is None else ab_sections(open_store(ab_folder))
    report = compute(loaded, aborted, baseline, challenger, tests)
    written = write(report, output)
    if as_json:
        click.echo(json.dumps(summary_data(report), ensure_ascii=False))
    elif is_brief:
        *lines, last = brief(report)
        for line in lines:
            click.echo(line)
        click.echo(f"{last}; the page: {output.uri}/report.html")
    else:
        console = Console(width=None if Console().is_terminal else 160)
        console.print(summary(report))
        click.echo(f"report: {output.uri}/report.html ({len(written)} files)")
    if report.refused:
        raise InputError("\n".join(report.refused))
