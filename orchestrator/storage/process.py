"""Which process this is, in words that another process can check."""

import os
import socket
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Process:
    """A process. Its id means something only at its place: a boot of a host, a container."""

    host: str
    place: str
    pid: int
    begun: str
    """Tells it from a later process of the same id; empty where the system does not say."""


def this_process() -> Process:
    """The one that asks."""
    return Process(socket.gethostname(), _place(), os.getpid(), _begun(os.getpid()) or "")


def is_alive(process: Process) -> bool | None:
    """Whether it is still there; None where that cannot be told from here."""
    if process.place != _place():
        return None
    return _begun(process.pid) == process.begun


def _place() -> str:
    parts = [socket.gethostname()]
    try:
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        parts.append(str(Path("/proc/self/ns/pid").readlink()))
    except OSError:  # not Linux: a host has one set of process ids
        pass
    return " ".join(parts)


def _begun(pid: int) -> str | None:
    """When a process began, in ticks since the boot; None where there is none, or a zombie."""
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except ProcessLookupError:
        return None
    except FileNotFoundError:
        return None if Path("/proc/self/stat").exists() else _begun_without_proc(pid)
    state, begun = after_name[0], after_name[19]
    return None if state in "ZX" else begun


def _begun_without_proc(pid: int) -> str | None:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:  # another user's
        return ""
    return ""
