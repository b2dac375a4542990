"""Runs inputs in child processes, which may crash or hang without harm to the driver."""

import contextlib
import ctypes
import multiprocessing
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from scripts.lab.fuzzing import requests
from scripts.lab.fuzzing.case import Case, Kind
from scripts.lab.fuzzing.kinds import KINDS
from scripts.lab.fuzzing.sandbox import Failure, Sandbox, check_output, unexpected

ROOT = Path(__file__).parents[3]
LIMIT_S = 5.0
"""An input that takes longer hangs; the good ones take milliseconds."""
COMMAND_LIMIT_S = 240.0
"""A command may have to wait until another process has compiled."""
COMMANDS_EVERY = 1_000
"""How often an input is also given to the command, in a process of its own."""
MEMORY_BYTES = 3 << 30
"""How much address space a child may take beyond what it starts with."""
WARM_UP = 3_000
MAX_LEAK_BYTES = 200 << 20
"""How much a process may grow after its first `WARM_UP` inputs."""
_fork = multiprocessing.get_context("fork")


@dataclass(frozen=True)
class Found:
    """A failing input: what is wrong, details for people, and the input's file."""

    kind: str
    what: str
    detail: str
    data: bytes


def case_of(seed: int, index: int, only: Sequence[str]) -> Case:
    """The input with this number: it depends on nothing else."""
    rng = random.Random(f"{seed}/{index}")
    kinds = [KINDS[name] for name in only]
    return rng.choices(kinds, [kind.share for kind in kinds])[0].generate(rng)


def run_case(case: Case, box: Sandbox, *, with_command: bool = False) -> Failure | None:
    """Run an input here; None if it was handled well."""
    kind = KINDS[case.kind]
    try:
        with box.fresh():
            kind.run(case, box)
            if with_command:
                _run_command(kind, case, box)
    except Failure as finding:
        return finding
    except Exception as error:
        return unexpected(error)
    return None


def _run_command(kind: Kind, case: Case, box: Sandbox) -> None:
    arguments = kind.command(case, box)
    if arguments is None or any("\ud800" <= c <= "\udfff" for a in arguments for c in a):
        return  # the operating system passes bytes
    try:
        ended = subprocess.run(
            [sys.executable, "-m", "orchestrator", *arguments],
            cwd=box.elsewhere,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            errors="backslashreplace",
            timeout=COMMAND_LIMIT_S,
        )
    except subprocess.TimeoutExpired:
        raise Failure(f"takes more than {COMMAND_LIMIT_S:g} s") from None
    codes = (0, 2, 3, 4) if arguments[0] == "health" else (0, 2)
    check_output(ended.returncode, ended.stdout, ended.stderr, codes)


def prepare() -> None:
    """Do once, before the first fork, what every child needs."""
    requests.prepare()


class Worker:
    """A child process that runs inputs one after the other."""

    def __init__(self, seed: int, only: Sequence[str], first: int, step: int) -> None:
        self.seed, self.only, self.next, self.step = seed, only, first, step
        self.folder = Path(tempfile.mkdtemp(prefix="hf-fuzz-", dir=_memory_folder()))
        self._start()

    def _start(self) -> None:
        self.pipe, theirs = _fork.Pipe(duplex=False)
        self._index = _fork.RawValue(ctypes.c_longlong, self.next)
        self._until = _fork.RawValue(ctypes.c_double, time.monotonic() + 60)
        self.process = _fork.Process(target=self._work, args=(theirs,))
        self.process.start()
        theirs.close()

    @property
    def done(self) -> int:
        """How many inputs it has run."""
        return int(self._index.value) // self.step

    def look(self) -> Iterator[Found]:
        """What was found since the last look. A process that died or hangs is replaced."""
        with contextlib.suppress(EOFError):
            while self.pipe.poll():
                yield self.pipe.recv()
        if self.process.exitcode is not None:
            code = self.process.exitcode
            what = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
            yield self._replace(what)
        elif time.monotonic() > self._until.value:
            self.process.kill()
            self.process.join()
            yield self._replace(f"takes more than {LIMIT_S:g} s")

    def stop(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.join()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _replace(self, what: str) -> Found:
        data = (self.folder / "case").read_bytes()
        self.next = int(self._index.value) + self.step
        self.pipe.close()
        self._start()
        return Found(Case.decode(data).kind, what, "", data)

    def _work(self, pipe: Connection) -> None:
        """The life of the child. It ends by being killed, or when the driver is gone."""
        driver = os.getppid()
        _prepare_child()
        box, baseline = Sandbox(self.folder), 0
        for count, index in enumerate(range(self.next, 1 << 60, self.step)):
            if os.getppid() != driver:
                return
            self._index.value = index
            case = case_of(self.seed, index, self.only)
            data = case.encode()
            (self.folder / "case").write_bytes(data)
            with_command = index % COMMANDS_EVERY == COMMANDS_EVERY - 1
            extra = COMMAND_LIMIT_S if with_command else 0.0
            self._until.value = time.monotonic() + LIMIT_S + extra
            finding = run_case(case, box, with_command=with_command)
            if finding is not None:
                pipe.send(Found(case.kind, finding.what, finding.detail, data))
            if count == WARM_UP:
                baseline = _resident_bytes()
            elif (
                count % WARM_UP == 0 and baseline and _resident_bytes() > baseline + MAX_LEAK_BYTES
            ):
                grown = (_resident_bytes() - baseline) >> 20
                pipe.send(Found("any", "memory grows", f"{grown} MiB in {count} inputs", data))
                baseline = _resident_bytes()


def run_alone(case: Case, limit_s: float = 4 * LIMIT_S) -> Failure | None:
    """Run one input in a child process of its own."""
    with tempfile.TemporaryDirectory(prefix="hf-fuzz-", dir=_memory_folder()) as folder:
        ours, theirs = _fork.Pipe(duplex=False)
        process = _fork.Process(target=_run_and_send, args=(case, Path(folder), theirs))
        process.start()
        theirs.close()
        try:
            if not ours.poll(limit_s):
                process.kill()
                return Failure(f"takes more than {LIMIT_S:g} s")
            answer: Failure | None = _finding(ours.recv())
        except EOFError:
            process.join()
            code = process.exitcode or 0
            name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            return Failure(f"killed by {name}" if code < 0 else name)
        finally:
            process.join()
            ours.close()
        return answer


def _finding(sent: Any) -> Failure | None:
    return None if sent is None else Failure(*sent)


def _run_and_send(case: Case, folder: Path, pipe: Connection) -> None:
    _prepare_child()
    finding = run_case(case, Sandbox(folder))
    pipe.send(None if finding is None else (finding.what, finding.detail))


def _prepare_child() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the driver decides when it is over
    with contextlib.suppress(OSError):
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY_BYTES, used + MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def _memory_folder() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None
