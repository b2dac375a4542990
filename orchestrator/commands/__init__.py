"""The subcommands of `holdfast`, a module each: thin, the work is elsewhere."""

import click

from orchestrator.commands import (
    bound,
    config,
    data,
    describe,
    log,
    publish,
    replay,
    report,
    run,
    score,
    serve,
)

COMMANDS: tuple[click.Command, ...] = (
    run.command,
    describe.command,
    config.command,
    log.command,
    report.command,
    replay.command,
    score.command,
    publish.command,
    serve.command,
    bound.command,
    data.command,
)
