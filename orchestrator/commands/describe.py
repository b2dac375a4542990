"""`holdfast describe`: shows what a stream contains, before a run."""

import json
import threading
from pathlib import Path

import click
from rich.console import Console

from divergence.errors import InputError
from orchestrator.commands.options import code_option, config_argument, json_option, set_option
from orchestrator.config.file import load_stream
from orchestrator.config.schema import feature_spec
from orchestrator.sources.describe.summary import describe
from orchestrator.sources.describe.table import description_json, print_tables
from orchestrator.sources.opening import open_source
from orchestrator.sources.protocol import Source


@click.command("describe", epilog="Example: holdfast describe run.yaml --picture stream.png")
@config_argument
@set_option
@code_option
@click.option("--cycles", default=50, show_default=True, type=click.IntRange(min=1),
              help="How many cycles to read.")  # fmt: skip
@json_option
@click.option("--picture", type=click.Path(path_type=Path), help="Draw it: .png, .svg or .pdf.")
def command(
    config_path: str,
    assignments: tuple[str, ...],
    cycles: int,
    as_json: bool,
    picture: Path | None,
) -> None:
    """Show what the source of CONFIG contains: events, CTR, features, their values and turnover.

    It also says how predictable clicks are: how much better than a constant CTR a reference model
    predicts them in one pass, each cycle before it trains on it.

    Writes nothing but the picture: broken rows are counted, not put in quarantine. Of a folder
    that is followed, it reads the files that exist now, without waiting for more.
    """
    described = describe(_source(config_path, assignments), cycles)
    if not described.cycles:
        raise InputError(f"{config_path}: source: must have events, but has none")
    if picture is not None:
        from orchestrator.sources.describe.picture import draw  # matplotlib is slow to load

        draw(described, picture, Path(config_path).name)
    if as_json:
        click.echo(json.dumps(description_json(described), ensure_ascii=False))
    else:
        print_tables(described, Console(width=None if Console().is_terminal else 160))
        if picture is not None:
            click.echo(f"picture: {picture}")


def _source(path: str, assignments: tuple[str, ...]) -> Source:
    config = load_stream(path, assignments)
    stopped = threading.Event()
    stopped.set()  # do not wait for more files of a followed folder
    return open_source(config.source, feature_spec(config.features), stop=stopped)
