"""Parquet files are read in a process of their own.

A damaged file may abort the process that reads it: pyarrow does not catch all exceptions of the
C++ library below it. Here that ends a child of this process, and is one line that names the file.
One child serves all files, one request at a time; it ends with this process.
"""

import atexit
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import astuple
from itertools import count
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

import pyarrow as pa
from fsspec import AbstractFileSystem
from fsspec.implementations.memory import MemoryFileSystem

from divergence.errors import InputError
from orchestrator.sources.files.files import File, file_errors
from orchestrator.sources.files.readers.parquet_reader import ParquetReader
from orchestrator.sources.files.readers.table_pipe import Message, receive, send
from orchestrator.sources.files.rows import Block, Rows

OPEN_FILES = 4
END_S = 1.0
CPU_S = 120
"""How long the child may work on one request: a damaged file may keep it busy for good."""
ERROR = "error"
TRIES = 2  # the child may have been killed between two requests, which is no file's fault


class IsolatedParquet:
    """A `ParquetReader` in the child."""

    _numbers = count()

    def __init__(self, file: File) -> None:
        self._name = file.name
        if isinstance(file.fs, MemoryFileSystem):
            raise InputError(
                f"{file.name}: Parquet is read in a process of its own, which does not see this "
                "one's memory: use a file"
            )
        place = (file.fs.to_json(), file.path, file.name, file.size)
        self._key = {"reader": next(self._numbers), "file": place}

    def blocks(self) -> Iterator[Block]:
        """Row groups; small ones are joined."""
        return (Block(*block) for block in self._request("blocks").content)

    def columns(self) -> Sequence[str]:
        """The names in the schema."""
        return tuple(self._request("columns").content)

    def read(self, block: Block, columns: Sequence[str]) -> Rows:
        """These columns, with the file's own types; texts may come as dictionaries."""
        broken, table = self._request("read", block, columns)
        assert table is not None, "the child sends it, or an error"
        return Rows(table, dict(broken), declared=True)

    def extremes(self, block: Block, column: str) -> pa.Array | None:
        """From the file's statistics."""
        table = self._request("extremes", block, column).table
        return None if table is None else table.column(0).combine_chunks()

    def raw(self, block: Block, positions: Sequence[int]) -> list[tuple[int, str]]:
        """Row numbers and rows as JSON."""
        return [(number, text) for number, text in self._request("raw", block, positions).content]

    def _request(self, method: str, block: Block | None = None, which: Any = None) -> Message:
        given = None if block is None else astuple(block)
        request = {**self._key, "method": method, "block": given, "which": which}
        answer = CHILD.request(self._name, Message(request))
        if isinstance(answer.content, dict) and ERROR in answer.content:
            raise InputError(answer.content[ERROR])
        return answer


class Child:
    """The process that reads. It is started when it is first needed, and again after a crash."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._running: tuple[subprocess.Popen[bytes], Connection] | None = None

    def request(self, name: str, request: Message) -> Message:
        """What the child answers. `InputError` if it crashes, with the name of the file."""
        with self._turn:
            for _ in range(TRIES):
                _, pipe = self._running = self._running or _start()
                try:
                    send(pipe, request)
                    return receive(pipe)
                except (EOFError, OSError):
                    ended = self._stop()
                except BaseException:  # the next request must not get this one's answer
                    self._stop()
                    raise
        raise InputError(
            f"{name} is not readable Parquet: pyarrow crashes on it ({ended}); "
            "it is probably damaged: write it again"
        )

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
        pipe.close()  # ends it, unless it is busy
        try:
            code = process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        return signal.Signals(-code).name if code < 0 else f"exit code {code}"


CHILD = Child()
atexit.register(CHILD.stop)


def _start() -> tuple[subprocess.Popen[bytes], Connection]:
    ours, theirs = Pipe()
    with theirs:
        code = f"from {__name__} import serve; serve({theirs.fileno()}, {CPU_S})"
        process = subprocess.Popen(
            [sys.executable, "-c", code],
            pass_fds=[theirs.fileno()],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,  # of a crash; errors are answers
            start_new_session=True,  # Ctrl-C is for the run, which may still finish its cycle
        )
    try:
        receive(ours)
    except EOFError:
        raise RuntimeError(f"the process that reads Parquet ended: {process.wait()}") from None
    return process, ours


def serve(handle: int, cpu_s: int) -> None:
    """Answer requests until the other end of the pipe is closed."""
    readers: OrderedDict[int, ParquetReader] = OrderedDict()
    _limit(resource.RLIMIT_AS, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    with Connection(handle) as pipe:
        send(pipe, Message("ready"))
        while True:
            try:
                request = receive(pipe).content
            except EOFError:
                return
            _limit(resource.RLIMIT_CPU, int(time.process_time()) + cpu_s)
            name = request["file"][2]
            try:
                with file_errors(name):
                    send(pipe, _answer(_reader(request, readers), request))
            except InputError as error:
                send(pipe, Message({ERROR: str(error)}))


def _limit(what: int, most: int) -> None:
    hard = resource.getrlimit(what)[1]
    resource.setrlimit(what, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def _reader(request: Any, readers: OrderedDict[int, ParquetReader]) -> ParquetReader:
    number = request["reader"]
    if number not in readers:
        system, *place = request["file"]
        readers[number] = ParquetReader(File(AbstractFileSystem.from_json(system), *place))
        while len(readers) > OPEN_FILES:
            readers.popitem(last=False)
    readers.move_to_end(number)
    return readers[number]


def _answer(reader: ParquetReader, request: Any) -> Message:
    if request["method"] == "blocks":
        return Message([astuple(block) for block in reader.blocks()])
    if request["method"] == "columns":
        return Message(reader.columns())
    block, which = Block(*request["block"]), request["which"]
    if request["method"] == "read":
        rows = reader.read(block, which)
        return Message(sorted(rows.broken.items()), rows.table)
    if request["method"] == "extremes":
        found = reader.extremes(block, which)
        return Message(None, None if found is None else pa.table({which: found}))
    return Message(reader.raw(block, which))
