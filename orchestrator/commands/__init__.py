"""The subcommands of `holdfast`, a module each: thin, the work is elsewhere."""

import click

from orchestrator.commands import config, data, describe, log, report

COMMANDS: tuple[click.Command, ...] = (
    describe.command,
    config.command,
    log.command,
    report.command,
    data.command,
)
