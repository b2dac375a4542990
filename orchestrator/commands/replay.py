"""`holdfast replay`: trains one instance again, event by event."""

import json

import click

from orchestrator.commands.options import code_option, json_option, run_argument
from orchestrator.journal.run_folder import run_config
from orchestrator.storage.open import open_store


@click.command("replay", epilog="Example: holdfast replay runs/first --cycle 12 --instance 3")
@run_argument
@click.option("--cycle", type=click.IntRange(min=0), required=True, help="Cycle of the instance.")
@click.option("--instance", type=click.IntRange(min=0), required=True,
              help="Number of the instance.")  # fmt: skip
@click.option("--arm", help="Arm of the instance. Default: the first arm.")
@code_option
@json_option
def command(run: str, cycle: int, instance: int, arm: str | None, as_json: bool) -> None:
    """Train an instance of RUN again, bit for bit, and show how its vectors grew.

    Shows where a divergence started, and which vectors came close to tau first.
    """
    from orchestrator.offline import replay_view  # loads the kernels
    from orchestrator.offline.replay import replay

    store = open_store(run)
    found = replay(store, arm, cycle, instance)
    if as_json:
        click.echo(json.dumps(replay_view.as_json(found)))
        return
    for line in replay_view.lines(found, run_config(store).model.tau):
        click.echo(line)
