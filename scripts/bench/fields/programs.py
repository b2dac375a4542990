"""Programs of the user's own: how one is run, how much memory it took, which version it is."""

import ctypes
import hashlib
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

LOOK_S = 0.002
"""Between two looks at a program's memory. Its peak grows only, so the last look tells it."""


class ProgramError(RuntimeError):
    """A program failed; the text says which, how, and the last line that it wrote."""


class ProgramRun(NamedTuple):
    """A program that has ended well."""

    text: str
    peak_bytes: int


def run_program(command: Sequence[str], folder: str) -> ProgramRun:
    """Run it to its end in this folder."""
    output, peak = Path(folder) / "output.txt", 0
    with output.open("w", encoding="utf-8") as file:
        process = subprocess.Popen(command, cwd=folder, stdout=file, stderr=subprocess.STDOUT)
        while process.poll() is None:
            peak = max(peak, peak_bytes(process.pid))
            time.sleep(LOOK_S)
    text = output.read_text(encoding="utf-8", errors="replace")
    if process.returncode != 0:
        last = (text.strip().splitlines() or ["it wrote nothing"])[-1]
        raise ProgramError(f"{command[0]} ended with {process.returncode}: {last}")
    return ProgramRun(text, peak)


def peak_bytes(process: int | str = "self") -> int:
    """The largest resident memory that a process has had; 0 where the system does not say."""
    return _status(process, "VmHWM")


def resident_bytes(process: int | str = "self") -> int:
    """The resident memory of a process; 0 where the system does not say."""
    return _status(process, "VmRSS")


def forget_peak() -> None:
    """Let this process's peak begin anew, after memory that is free has gone back to the system."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's alone
    if trim is not None:
        trim(0)
    refs = Path("/proc/self/clear_refs")
    if refs.exists():
        refs.write_text("5")


def _status(process: int | str, field: str) -> int:
    try:
        lines = Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0  # it has just ended
    return next((1024 * int(x.split()[1]) for x in lines if x.startswith(f"{field}:")), 0)


def program_version(path: Path) -> str:
    """What git says of its folder (`-dirty`: with changes), else a checksum of the program."""
    folder = path.resolve().parent
    if (folder / ".git").exists():
        command = ["git", "-C", str(folder), "describe", "--always", "--dirty"]
        found = subprocess.run(command, capture_output=True, text=True, check=False)
        if found.returncode == 0:
            return f"commit {found.stdout.strip()}"
    return f"sha256 {hashlib.sha256(path.read_bytes()).hexdigest()[:12]}"
