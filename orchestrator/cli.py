"""The command `holdfast`. Exit codes: 0 success, 2 user error, 1 a bug in Holdfast."""

import errno
import io
import logging
import sys

import click

from divergence.errors import InputError
from orchestrator.commands import Commands
from orchestrator.validation.uris import redact

MAX_LINE = 1000
"""The longest line of a message, in characters."""
USER_ERRNOS = {
    errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EISDIR, errno.ENOTDIR, errno.ELOOP,
    errno.ENAMETOOLONG,
}  # fmt: skip


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Examples: holdfast config run.yaml · holdfast log runs/first --json",
)
@click.version_option(package_name="holdfast", prog_name="holdfast")
def holdfast() -> None:
    """Train an online click model continuously and tune its hyper-parameters on the way."""


def main() -> None:
    """Run the command line; a user error prints one line per problem, without a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a path may have bytes that are no character
            stream.reconfigure(errors="backslashreplace")
    logging.getLogger(__package__).handlers = [Warnings(logging.WARNING)]
    try:
        holdfast.main(prog_name="holdfast", standalone_mode=False)
    except InputError as error:
        _exit(str(error), 2)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        sys.exit(2)
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "holdfast"
        _exit(f"{error.format_message()} See {command} --help.", 2)
    except (click.Abort, KeyboardInterrupt):
        _exit("interrupted", 130)
    except BrokenPipeError:
        sys.stderr.close()  # the reader has closed the pipe (| head)
        sys.exit(0)
    except OSError as error:
        if not _is_environment_error(error):
            raise
        _exit(f"{error.filename or 'storage'}: {error.strerror or error}", 2)


class Warnings(logging.Handler):
    """Shows warnings as the command's own lines, where no log is asked for."""

    def emit(self, record: logging.LogRecord) -> None:
        """Show a warning."""
        _say(record.getMessage())


def _is_environment_error(error: OSError) -> bool:
    """Whether the user can fix it: no permission, no such file, no space left."""
    return isinstance(error, PermissionError | FileNotFoundError) or error.errno in USER_ERRNOS


def _exit(message: str, code: int) -> None:
    _say(message)
    sys.exit(code)


def _say(message: str) -> None:
    from orchestrator.validation.errors import printable  # imports pydantic: 0.2 s

    for line in redact(message).splitlines():
        text = line if len(line) <= MAX_LINE else f"{line[:MAX_LINE]}…"
        click.echo(f"holdfast: {printable(text)}", err=True)
