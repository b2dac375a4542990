"""The identity of a process, which other processes can check."""

import os
import socket
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Process:
    """A process. Leases store these fields under these names.

    A process id is only valid at its `place`: one boot of a host, or one container.
    """

    host: str
    place: str
    pid: int
    begun: str
    """Start time, which tells apart two processes of the same id; empty if unknown."""


def this_process() -> Process:
    """The current process."""
    return Process(socket.gethostname(), _place(), os.getpid(), _start_time(os.getpid()) or "")


def is_alive(process: Process) -> bool | None:
    """Whether the process still exists; None if it runs where this host cannot see it."""
    if process.place != _place():
        return None
    return _start_time(process.pid) == process.begun


def _place() -> str:
    parts = [socket.gethostname()]
    try:
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        parts.append(str(Path("/proc/self/ns/pid").readlink()))
    except OSError:  # not Linux: process ids are unique on a host
        pass
    return " ".join(parts)


def _start_time(pid: int) -> str | None:
    """When a process started, in ticks since boot; None if it does not exist or is a zombie."""
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except ProcessLookupError:
        return None
    except FileNotFoundError:
        return None if Path("/proc/self/stat").exists() else _start_time_without_proc(pid)
    state, start_time = after_name[0], after_name[19]
    return None if state in "ZX" else start_time


def _start_time_without_proc(pid: int) -> str | None:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:  # it exists, but belongs to another user
        return ""
    return ""
