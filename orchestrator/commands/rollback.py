"""`holdfast rollback`: serve an earlier version again, and go forward again."""

import click

from divergence.errors import InputError
from orchestrator.publish.rollback import go_forward, roll_back
from orchestrator.storage.open import open_store


@click.command("rollback", epilog="Example: holdfast rollback s3://bucket/published --to 41")
@click.argument("place")
@click.option(
    "--to", type=click.IntRange(min=1), help="The version to serve. Default: the one before."
)
@click.option(
    "--forward", is_flag=True, help="Serve the newest published version again, and end the hold."
)
def command(place: str, to: int | None, forward: bool) -> None:
    """Serve an earlier version of PLACE (a folder or URI) again, and hold it.

    Serving processes switch within seconds. The run keeps training, and publishes nothing until
    --forward. Then it publishes its next champion; holdfast publish does so at once.
    """
    if forward and to is not None:
        raise InputError("--to and --forward cannot be given together")
    store = open_store(place)
    made = go_forward(store) if forward else roll_back(store, to)
    again = f"; to go forward again: holdfast rollback {place} --forward"
    newer = (
        f"a newer champion is published by the run's next cycle, or: holdfast publish RUN {place}"
    )
    click.echo(
        f"{place} now serves version {made.copy_of} (cycle {made.cycle}) as version {made.number}"
        + (again if made.held else "")
    )
    click.echo(f"after that, {newer}" if made.held else newer)
