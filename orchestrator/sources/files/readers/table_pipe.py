"""Messages between two processes: JSON, and a table by shared memory. Data, never code.

A table of 10 MB cost about 80 ms through a socket, and 10 ms by memory, which the receiver maps
(measured on a busy machine of two cores).
"""

import json
import mmap
import os
import tempfile
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle, send_handle
from typing import IO, Any, NamedTuple

import pyarrow as pa
import pyarrow.ipc


class Message(NamedTuple):
    """`content` is anything that JSON can express."""

    content: Any
    table: pa.Table | None = None


def send(pipe: Connection, message: Message) -> None:
    """Send a message. If it cannot be encoded, nothing is sent."""
    content = json.dumps([message.content, message.table is not None]).encode()
    if message.table is None:
        pipe.send_bytes(content)
        return
    with _memory_file() as file:
        with pa.ipc.new_stream(file, message.table.schema) as writer:
            writer.write_table(message.table)
        file.flush()
        pipe.send_bytes(content)
        send_handle(pipe, file.fileno(), None)


def receive(pipe: Connection) -> Message:
    """The next message. `EOFError` if the other process has ended."""
    content, has_table = json.loads(pipe.recv_bytes())
    if not has_table:
        return Message(content)
    handle = recv_handle(pipe)
    try:
        memory = mmap.mmap(handle, 0, access=mmap.ACCESS_READ)
    finally:
        os.close(handle)
    return Message(content, pa.ipc.open_stream(pa.py_buffer(memory)).read_all())


def _memory_file() -> IO[bytes]:
    if hasattr(os, "memfd_create"):  # Linux
        return os.fdopen(os.memfd_create("holdfast"), "w+b")
    return tempfile.TemporaryFile()
