"""The subcommands of `holdfast`, a module each: thin, the work is elsewhere."""

import click

from orchestrator.commands import config, log

COMMANDS: tuple[click.Command, ...] = (config.command, log.command)
