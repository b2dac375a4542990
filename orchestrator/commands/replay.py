"""`holdfast replay`: trains one instance again, event by event, or tells the story of its end."""

import json

import click

from divergence.errors import InputError
from orchestrator.commands.options import code_option, json_option, run_argument
from orchestrator.config.trainer_checks import require_offset
from orchestrator.journal.run_folder import run_config
from orchestrator.storage.open import open_store
from orchestrator.storage.store import Store


@click.command("replay", epilog="Example: holdfast replay runs/first --cycle 12 --instance 3")
@run_argument
@click.option("--cycle", type=click.IntRange(min=0), required=True, help="Cycle of the instance.")
@click.option("--instance", type=click.IntRange(min=0), required=True,
              help="Number of the instance.")  # fmt: skip
@click.option("--arm", help="Arm of the instance. Default: the first arm.")
@click.option("--story", "as_story", is_flag=True,
              help="Write a page instead: which vector grew first, how growth spread, and a "
              "twin held by dual ascent. With --json, print the data.")  # fmt: skip
@click.option("--out", metavar="FILE",
              help="The page of --story. Default: story-ARM-cycle-N-instance-I.html.")  # fmt: skip
@code_option
@json_option
def command(
    run: str,
    cycle: int,
    instance: int,
    arm: str | None,
    as_story: bool,
    out: str | None,
    as_json: bool,
) -> None:
    """Train an instance of RUN again, bit for bit, and show how its vectors grew.

    Shows where a divergence started, and which vectors came close to tau first.
    """
    store = open_store(run)
    if as_story:
        _story(store, (arm, cycle, instance), out, as_json)
        return
    if out is not None:
        raise InputError("--out: names the page of --story, so it needs --story")
    from orchestrator.offline import replay_view  # loads the kernels
    from orchestrator.offline.replay import replay

    found = replay(store, arm, cycle, instance)
    if as_json:
        click.echo(json.dumps(replay_view.as_json(found)))
        return
    for line in replay_view.lines(found, run_config(store).model.tau):
        click.echo(line)


def _story(
    store: Store, which: tuple[str | None, int, int], out: str | None, as_json: bool
) -> None:
    from orchestrator.offline.story import dump_story
    from orchestrator.offline.story_of import read_story  # loads the kernels
    from orchestrator.offline.story_view import sentences
    from orchestrator.report.story_page import write_story
    from orchestrator.validation.errors import printable

    require_offset(run_config(store), "replay --story")
    story = read_story(store, *which)
    path = None if as_json and out is None else write_story(story, out)
    if as_json:
        click.echo(dump_story(story))
        return
    for line in (*sentences(story), f"story: {path}"):
        click.echo(printable(line))
