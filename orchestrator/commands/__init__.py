"""The subcommands of `holdfast`, a module each: thin, the work is elsewhere."""

import click

from orchestrator.commands import (
    bound,
    config,
    data,
    describe,
    health,
    log,
    replay,
    report,
    run,
    score,
)

COMMANDS: tuple[click.Command, ...] = (
    run.command,
    describe.command,
    config.command,
    log.command,
    health.command,
    report.command,
    replay.command,
    score.command,
    bound.command,
    data.command,
)
