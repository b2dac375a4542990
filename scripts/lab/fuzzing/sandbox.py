"""Runs commands of Holdfast inside this process and checks how they end and what they write."""

import contextlib
import io
import os
import re
import resource
import shutil
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from orchestrator.cli import holdfast, main

CANARY = "c4n4ry"
"""Part of every secret in the inputs: it must not appear in any output."""
MAX_LINE = 2_000
"""Characters of an error line. The longest right ones list the keys that are allowed."""
MAX_GROWTH_BYTES = 256 << 20
"""How much more memory one input may take than all before it."""
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
WARNING = re.compile(r"^\S+\.py:\d+: (\w*Warning)", re.MULTILINE)
PACKAGES = ("/divergence/", "/trainer/", "/orchestrator/")


class Failure(Exception):  # noqa: N818 - it is what the fuzzer looks for
    """Something that must not happen. `what` is the same text for the same cause."""

    def __init__(self, what: str, detail: str = "") -> None:
        super().__init__(what)
        self.what, self.detail = what, detail


class Sandbox:
    """A folder for inputs, and one beside it that commands may write to."""

    def __init__(self, folder: Path) -> None:
        self.inputs, self.out, self.elsewhere = folder / "in", folder / "out", folder / "cwd"
        self._folders = (self.inputs, self.out, self.elsewhere)

    @contextlib.contextmanager
    def fresh(self) -> Iterator[None]:
        """Empty folders for one input; checks at the end what the input left behind."""
        for folder in self._folders:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
        os.chdir(self.elsewhere)
        before = _peak_bytes()
        yield
        for path in self.out.rglob("*"):
            if path.is_file() and not path.is_symlink() and CANARY.encode() in path.read_bytes():
                raise Failure(f"a secret is in the file {path.relative_to(self.out)}")
        if _peak_bytes() - before > MAX_GROWTH_BYTES:
            raise Failure(f"takes more than {MAX_GROWTH_BYTES >> 20} MiB")

    def step(self, function: Callable[[], object]) -> int:
        """Run a function as if it were a command of `holdfast`."""

        def callback() -> None:
            function()

        holdfast.add_command(click.Command("step", callback=callback, hidden=True))
        return self.command("step")

    def command(self, *arguments: str, codes: tuple[int, ...] = (0, 2)) -> int:
        """Run a command of `holdfast`; returns its exit code, which is one of `codes`."""
        out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", mode) for mode in _ERRORS)
        before, sys.argv = sys.argv, ["holdfast", *arguments]
        try:
            with (
                contextlib.redirect_stdout(out),
                contextlib.redirect_stderr(err),
                warnings.catch_warnings(),  # shows them again, as a new process would
                watched_writes(self.out),
            ):
                main()
            code = 0
        except SystemExit as exit_:
            code = exit_.code if isinstance(exit_.code, int) else 1
        except Failure:
            raise
        except Exception as error:
            raise unexpected(error) from None
        finally:
            sys.argv = before
        check_output(code, _written(out), _written(err), codes)
        return code


_ERRORS = ("strict", "backslashreplace")
"""How Python's own stdout and stderr handle what cannot be encoded."""


def check_output(code: int, out: str, err: str, codes: tuple[int, ...] = (0, 2)) -> None:
    """Failure unless a command ended well: its exit code, clean lines, and no secret."""
    if code not in codes:
        raise Failure(f"exit code {code}", _tail(err))
    if "Traceback (most recent" in err:
        raise Failure("a traceback on stderr", _tail(err))
    if found := WARNING.search(err):
        raise Failure(f"a {found[1]} on stderr", _tail(err))
    for text, where in ((out, "stdout"), (err, "stderr")):
        if CANARY in text:
            raise Failure(f"a secret on {where}", _tail(text))
    if code == 2:
        lines = err.removesuffix("\n").split("\n")
        for line in lines:
            check_line(line.removeprefix("holdfast: "), err)
            if not line.startswith("holdfast: "):
                raise Failure("a line on stderr is not ours", _tail(err))


def check_line(line: str, context: str = "") -> None:
    """Failure unless this is one short line of plain text."""
    if not line.strip():
        raise Failure("an empty error line", _tail(context))
    if len(line) > MAX_LINE:
        raise Failure("an error line is too long", f"{len(line)} characters: {line[:300]}")
    if CONTROL.search(line):
        raise Failure("control characters in an error line", ascii(line[:500]))


def _written(stream: io.TextIOWrapper) -> str:
    stream.flush()
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode()


def unexpected(error: BaseException) -> Failure:
    """The finding of an exception that no command handles: users would see its traceback."""
    return Failure(_place(error), _tail("".join(traceback.format_exception(error))))


def _place(error: BaseException) -> str:
    """The type of an exception, and the function of ours that it comes from."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if _is_ours(f.filename)]
    where = next((f for f in reversed(frames)), None)
    at = "" if where is None else f" in {_short_path(where.filename)} {where.name}"
    return f"{type(error).__name__}{at}"


def _is_ours(path: str) -> bool:
    return any(package in path for package in PACKAGES) and "site-packages" not in path


def _short_path(path: str) -> str:
    return next(path[path.rindex(p) + 1 :] for p in PACKAGES if p in path)


def _tail(text: str) -> str:
    """The beginning and the end of a long text."""
    return text if len(text) <= 4000 else f"{text[:1000]}\n…\n{text[-3000:]}"


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


# -- writes -------------------------------------------------------------------------------------

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGES = {
    "os.mkdir": (0,),
    "os.remove": (0,),
    "os.rmdir": (0,),
    "os.rename": (0, 1),
    "os.link": (1,),
    "os.symlink": (1,),
    "os.truncate": (0,),
    "os.chmod": (0,),
    "shutil.rmtree": (0,),
}
"""Which arguments of an audit event are paths that change."""
_watch: dict[str, Any] = {"allowed": None, "outside": []}


@contextlib.contextmanager
def watched_writes(allowed: Path) -> Iterator[None]:
    """Failure if anything is written outside of a folder, or the network is used."""
    if "hook" not in _watch:
        _watch["hook"] = True
        sys.addaudithook(_audit)
    _watch.update(allowed=os.path.realpath(allowed), outside=[])
    try:
        yield
    finally:
        _watch["allowed"] = None
        if _watch["outside"]:
            raise Failure(_watch["outside"][0].replace(os.path.realpath(allowed.parent), ""))


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if _watch["allowed"] is None:
        return
    if event == "open":
        path, _, flags = arguments
        if isinstance(path, str | bytes) and flags & _WRITING:
            _check_path(event, path)
    elif event in _CHANGES:
        for at in _CHANGES[event]:
            _check_path(event, arguments[at])
    elif event == "socket.connect":
        _watch["outside"].append("connects to the network")


def _check_path(event: str, path: Any) -> None:
    if not isinstance(path, str | bytes | os.PathLike):
        return
    given = Path(os.fsdecode(path))
    follows = event in ("open", "os.truncate", "os.chmod")  # the others act on a link itself
    real = os.path.realpath(given if follows else given.parent)
    if not Path(real).is_relative_to(_watch["allowed"]) and not _is_cache(real):
        _watch["outside"].append(f"writes outside of the run folder ({event}): {real}")
        raise PermissionError(f"the fuzzer forbids {event} of {real}")


def _is_cache(path: str) -> bool:
    """Python's and numba's caches, and the null device."""
    return "__pycache__" in path or path == os.devnull
