"""Parquet files are read in a process of their own.

A damaged file may abort the process that reads it: pyarrow does not catch all exceptions of the
C++ library below it. Here that ends a child of this process, and is one line that names the file.
One child serves all files, one request at a time; it ends with this process.
"""

import atexit
import os
import signal
import subprocess
import sys
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from itertools import count
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import pyarrow as pa

from divergence.errors import InputError
from orchestrator.sources.files.files import File, file_errors
from orchestrator.sources.files.parquet_reader import ParquetReader
from orchestrator.sources.files.rows import Block, Rows

OPEN_FILES = 4
TRIES = 2  # the child may have been killed between two requests, which is no file's fault


class Request(NamedTuple):
    """A call of a method of one of the child's readers."""

    reader: int
    file: File
    method: str
    arguments: tuple[Any, ...]


class IsolatedParquet:
    """A `ParquetReader` in the child."""

    _numbers = count()

    def __init__(self, file: File) -> None:
        self._file, self._number = file, next(self._numbers)

    def blocks(self) -> Iterator[Block]:
        """Row groups; small ones are joined."""
        return iter(self._ask("blocks"))

    def columns(self) -> Sequence[str]:
        """The names in the schema."""
        names: Sequence[str] = self._ask("columns")
        return names

    def read(self, block: Block, columns: Sequence[str]) -> Rows:
        """These columns, with the file's own types."""
        rows: Rows = self._ask("read", block, columns)
        return rows

    def extremes(self, block: Block, column: str) -> pa.Array | None:
        """From the file's statistics."""
        return self._ask("extremes", block, column)

    def raw(self, block: Block, positions: Sequence[int]) -> list[tuple[int, str]]:
        """Row numbers and rows as JSON."""
        rows: list[tuple[int, str]] = self._ask("raw", block, positions)
        return rows

    def _ask(self, method: str, *arguments: Any) -> Any:
        return CHILD.ask(Request(self._number, self._file, method, arguments))


class Child:
    """The process that reads. It is started when it is first needed, and again after a crash."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._running: tuple[subprocess.Popen[bytes], Connection] | None = None

    def ask(self, request: Request) -> Any:
        """What the reader answers. `InputError` if it cannot read the file, or crashes."""
        with self._turn:
            for _ in range(TRIES):
                _, pipe = self._running = self._running or _start()
                try:
                    pipe.send(request)
                    answer = pipe.recv()
                    break
                except (EOFError, OSError):
                    ended = self._stop()
                except BaseException:  # the next request must not get this one's answer
                    self._stop()
                    raise
            else:
                raise InputError(
                    f"{request.file.name} is not readable Parquet: pyarrow crashes on it "
                    f"({ended}); it is probably damaged: write it again"
                )
        if isinstance(answer, InputError):
            raise answer
        return answer

    def stop(self) -> None:
        """End the process, if there is one."""
        with self._turn:
            if self._running is not None:
                self._stop()

    def _stop(self) -> str:
        """End the process, and say how it ended."""
        assert self._running is not None, "the caller checks that there is one"
        process, pipe = self._running
        self._running = None
        pipe.close()
        process.kill()
        code = process.wait()
        return signal.Signals(-code).name if code < 0 else f"exit code {code}"


CHILD = Child()
atexit.register(CHILD.stop)


def _start() -> tuple[subprocess.Popen[bytes], Connection]:
    ours, theirs = Pipe()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-c", f"from {__name__} import serve; serve({theirs.fileno()})"],
            pass_fds=[theirs.fileno()],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,  # of a crash; errors are answers
            start_new_session=True,  # Ctrl-C is for the run, which may still finish its cycle
        )
    try:
        ours.recv()
    except EOFError:
        raise RuntimeError(f"the process that reads Parquet ended: {process.wait()}") from None
    return process, ours


def serve(handle: int) -> None:
    """Answer requests until the other end of the pipe is closed."""
    readers: OrderedDict[int, ParquetReader] = OrderedDict()
    with Connection(handle) as pipe:
        pipe.send("ready")
        while True:
            try:
                request: Request = pipe.recv()
            except EOFError:
                return
            pipe.send(_answer(request, readers))


def _answer(request: Request, readers: OrderedDict[int, ParquetReader]) -> Any:
    try:
        with file_errors(request.file.name):
            if request.reader not in readers:
                readers[request.reader] = ParquetReader(request.file)
                while len(readers) > OPEN_FILES:
                    readers.popitem(last=False)
            readers.move_to_end(request.reader)
            return getattr(readers[request.reader], request.method)(*request.arguments)
    except InputError as error:
        return error
