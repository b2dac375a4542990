"""`holdfast publish`: copies a run's champion to a place that serving follows."""

import click

from divergence.errors import InputError
from orchestrator.commands.options import run_argument
from orchestrator.config.schema import PublishConfig, published_arm
from orchestrator.config.trainer_checks import require_offset
from orchestrator.journal.journal import newest_committed
from orchestrator.journal.run_folder import run_config
from orchestrator.publish.publisher import Publisher
from orchestrator.storage.open import open_store


@click.command("publish", epilog="Example: holdfast publish runs/demo s3://bucket/published")
@run_argument
@click.argument("place")
@click.option("--arm", help="The arm to publish. Default: publish.arm, else the first arm.")
@click.option("--full", is_flag=True, help="Publish the full model in one file instead of a delta.")
@click.option("--keep-last", default=16, show_default=True, type=click.IntRange(min=1),
              help="Number of versions to keep in PLACE.")  # fmt: skip
@click.option(
    "--take-over", is_flag=True, help="Publish even if PLACE holds models of another run or arm."
)
def command(
    run: str, place: str, arm: str | None, full: bool, keep_last: int, take_over: bool
) -> None:
    """Publish the newest champion of RUN to PLACE (folders or URIs).

    A run whose config has publish: {to: PLACE} publishes by itself after every commit.
    """
    store = open_store(run)
    config = run_config(store)
    require_offset(config, "publish")
    arms = {a.name: a.first_cycle for a in config.arms}
    if arm is not None and arm not in arms:
        raise InputError(f"--arm {arm}: must be one of {', '.join(arms)}")
    arm = arm or published_arm(config)
    terms = PublishConfig(to=place, arm=arm, deltas=not full, keep_last=keep_last)
    publisher = Publisher(config, store, open_store(place), terms, take_over)
    record = newest_committed(store, arms).records.get(publisher.arm)
    if record is None or not record.model:
        raise InputError(f"{run}: {publisher.arm} has no champion yet")
    version = publisher.publish(record)
    if version is None:
        click.echo(f"{place} already has this champion or a newer one")
    else:
        click.echo(f"published version {version.number} (cycle {version.cycle}) to {place}")
