"""The subcommands of `holdfast`, a module each: thin, the work is elsewhere."""

import click

from orchestrator.commands import config, data, describe, log, replay, run

COMMANDS: tuple[click.Command, ...] = (
    run.command,
    describe.command,
    config.command,
    log.command,
    replay.command,
    data.command,
)
