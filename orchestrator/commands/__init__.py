"""The subcommands of `holdfast`, one thin module each; the work is done elsewhere."""

import click

from orchestrator.commands import (
    ab,
    bound,
    config,
    data,
    describe,
    export,
    health,
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
    health.command,
    report.command,
    replay.command,
    score.command,
    publish.command,
    serve.command,
    export.command,
    ab.command,
    bound.command,
    data.command,
)
