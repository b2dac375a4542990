"""The command `holdfast`. Exit codes: 0 done, 2 the user can mend it, 1 our fault."""

import errno
import sys

import click

from divergence.errors import InputError
from orchestrator.commands import COMMANDS


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Examples: holdfast config run.yaml · holdfast log runs/first --json",
)
@click.version_option(package_name="holdfast", prog_name="holdfast")
def holdfast() -> None:
    """Trains an online click model for ever, tuning its hyper-parameters as it goes."""


for _command in COMMANDS:
    holdfast.add_command(_command)


def main() -> None:
    """Run the command line; a user's mistake is told in one line each, without a traceback."""
    try:
        holdfast.main(prog_name="holdfast", standalone_mode=False)
    except InputError as error:
        _end(str(error), 2)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        sys.exit(2)
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "holdfast"
        _end(f"{error.format_message()} See {command} --help.", 2)
    except (click.Abort, KeyboardInterrupt):
        _end("stopped", 130)
    except BrokenPipeError:
        sys.stderr.close()  # the reader has gone (| head): nothing to tell anyone
        sys.exit(0)
    except OSError as error:
        if not _theirs(error):
            raise
        _end(f"{error.filename or 'storage'}: {error.strerror or error}", 2)


def _theirs(error: OSError) -> bool:
    """Whether it is the machine that refuses: no permission, no file, no room."""
    full = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EISDIR, errno.ENOTDIR)
    return isinstance(error, PermissionError | FileNotFoundError) or error.errno in full


def _end(message: str, code: int) -> None:
    for line in message.splitlines():
        click.echo(f"holdfast: {line}", err=True)
    sys.exit(code)
