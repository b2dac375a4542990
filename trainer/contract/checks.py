"""The contract of a rule: `holdfast rule check` and the tests of every rule of the tree run it.

Every check takes the name of a rule, draws worlds and parameters from fixed seeds, and says in one
line what it found.
"""

import hashlib
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numba.core.errors import NumbaError, UnsupportedBytecodeError

from divergence import own_code
from divergence.jit import compiling
from divergence.lanemath import CONSTANTS
from divergence.rules import rule_class
from divergence.simd import padded
from trainer.contract.examples import example_parameters
from trainer.contract.oracle import Oracle
from trainer.contract.worlds import (
    EPS,
    POWER,
    World,
    copied,
    first_state,
    make_world,
    padding_of,
    state_of,
    tables_of,
    train_kernel,
)
from trainer.kernel import Tables, train_block
from trainer.static_shape import StaticShape

GEOMETRIES = ((3, 4, 2, 2), (2, 5, 4, 2), (1, 0, 3, 1), (4, 3, 1, 3), (5, 2, 2, 1))
"""Features of the user, shared and lone entries, features of the ad: vectors of many widths."""
MOST_COST = 1.25
"""What a rule may cost, as a multiple of `entropic`."""
X86 = platform.machine().lower() in ("x86_64", "amd64")
ANOTHER_CPU = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "+avx,+fma" if X86 else ""}
"""An older CPU, but not one without fma: LLVM would write it out, and compile for minutes."""


class CheckResult(NamedTuple):
    """What a check found."""

    check: str
    passed: bool
    text: str


class BrokenError(Exception):
    """A check has failed, and why."""


def check_rule(name: str) -> Iterator[CheckResult]:
    """All checks of a rule, one after the other; no further ones if it does not compile."""
    for check, (run, title) in CHECKS.items():
        try:
            yield CheckResult(title, True, run(name))
        except BrokenError as error:
            yield CheckResult(title, False, str(error))
            if check == "compiles":
                return


def compiles(name: str) -> str:
    """The kernel compiles with this rule."""
    begin = time.perf_counter()
    world, start = next(_worlds(name, 1))
    try:
        with compiling():
            train_kernel(world, tables_of(world, start), 0, 0)
    except (NumbaError, UnsupportedBytecodeError) as error:
        raise BrokenError(_cause(error)) from error
    return f"in {time.perf_counter() - begin:.0f} s"


def equals_the_oracle(name: str) -> str:
    """Each step of the kernel is that of `oracle`, to float32 accuracy.

    Every step starts from the kernel's state. What rounding may do is measured: oracles with errors
    of that size end some way off, and so may the kernel.
    """
    if not hasattr(rule_class(name), "oracle"):
        raise BrokenError(
            "there is no oracle: write the step in numpy, as a method oracle(self, theta, g, sums, "
            "mu, step) that returns the new theta, sums and mu"
        )
    worst, steps = 0.0, 0
    for world, start in _worlds(name, 24):
        tables = tables_of(world, start)
        for number in range(len(world.events)):
            before = state_of(world, tables, start)
            bad, _ = train_kernel(world, tables, number, number + 1)
            worst, steps = max(worst, _gap(world, before, tables, number)), steps + 1
            if bad >= 0:
                break
    return f"{steps} steps in 24 worlds, the largest error {worst:.0%} of what rounding explains"


def keeps_padding(name: str) -> str:
    """Entries that only fill a register stay zero, whatever the length of a vector."""
    for world, start in _worlds(name, 10):
        tables = tables_of(world, start)
        train_kernel(world, tables)
        if np.any(padding_of(world, tables)):
            d, n = world.lengths
            raise BrokenError(
                f"entries behind the end of vectors of length {d} or {n} are no longer zero: a "
                "hook must turn theta = 0 and g = 0 into 0"
            )
    return f"vectors of {len(GEOMETRIES) * 2} lengths, filled up to whole registers with zeros"


def gives_the_same_bits(name: str) -> str:
    """Again, in two halves, and with a shape that the compiler knows."""
    for number, (world, start) in enumerate(_worlds(name, 6, events=9)):
        whole, again, parts = (tables_of(world, start) for _ in range(3))
        train_kernel(world, whole)
        train_kernel(world, again)
        if train_kernel(world, parts, 0, 4)[0] < 0:
            train_kernel(world, parts, 4)
        ways = {"trained again": again, "trained in two parts": parts}
        if number == 2:  # a small one: it compiles quickly
            ways["compiled for one shape"] = copied(tables_of(world, start))
            train_kernel(world, ways["compiled for one shape"], fixed=True)
        for way, tables in ways.items():
            if _digest(tables, world) != _digest(whole, world):
                raise BrokenError(f"other bits when {way}: does a hook keep or draw something?")
    return "trained again, in two parts, and compiled for one shape"


def finds_nan(name: str) -> str:
    """A NaN in a vector ends the instance at the first event that uses it."""
    for world, start in _worlds(name, 6, events=20):
        for side in ("user", "ad"):
            rows = [[r for bag in getattr(e, side) for r, _ in bag] for e in world.events]
            row = rows[len(rows) // 2][0]
            state = start.copy()
            getattr(state, side).theta[row, -1] = np.nan
            first = next(number for number, used in enumerate(rows) if row in used)
            bad, _ = train_kernel(world, tables_of(world, state))
            if bad != first and not 0 <= bad < first:  # hot parameters may diverge earlier
                raise BrokenError(
                    f"a NaN in the {side}'s vector at event {first} was hidden: larger and smaller "
                    "turn NaN into a number, use at_least and at_most"
                )
    return "at the first event that uses it"


def same_on_another_cpu(name: str) -> str:
    """The bits of a process that compiles for the simplest CPU are those of this one."""
    code = (
        "import sys; from trainer.contract.checks import print_digest; print_digest(*sys.argv[1:])"
    )
    folders = [str(folder) for folder in own_code.folders()]
    path = os.pathsep.join(p for p in sys.path if p)
    done = subprocess.run(
        [sys.executable, "-c", code, name, *folders],
        env={**os.environ, **ANOTHER_CPU, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise BrokenError(f"the process for another CPU failed: {last}")
    if done.stdout.strip() != digest_of(name):
        raise BrokenError("other bits on an older CPU: use the operations of divergence.simd only")
    return "compiled for this CPU and for an older one"


def costs_little(name: str) -> str:
    """The kernel's time with this rule, against `entropic`."""
    times: dict[str, list[float]] = {name: [], "entropic": []}
    runs = {rule: _timed(rule) for rule in times}
    for _ in range(25):
        for rule, run in runs.items():
            times[rule].append(run())
    ratio = min(times[name]) / min(times["entropic"])
    text = f"{ratio:.2f} times the time of entropic"
    if ratio > MOST_COST:
        raise BrokenError(f"{text}, more than {MOST_COST}: measure again on an idle machine")
    return text


CHECKS: dict[str, tuple[Callable[[str], str], str]] = {
    "compiles": (compiles, "compiles"),
    "oracle": (equals_the_oracle, "equals its oracle"),
    "padding": (keeps_padding, "any vector length"),
    "bits": (gives_the_same_bits, "the same bits"),
    "nan": (finds_nan, "NaN is never hidden"),
    "cpu": (same_on_another_cpu, "the same bits on any CPU"),
    "cost": (costs_little, "cost"),
}


def digest_of(name: str) -> str:
    """A hash of what training gives in some worlds."""
    digest = hashlib.sha256()
    for world, start in _worlds(name, 8, events=9):
        tables = tables_of(world, start)
        train_kernel(world, tables)
        digest.update(_digest(tables, world))
    return digest.hexdigest()


def print_digest(name: str, *folders: str) -> None:
    """For another process."""
    own_code.allow(folders)
    print(digest_of(name))


def _worlds(name: str, count: int, events: int = 4) -> Iterator[tuple[World, Oracle]]:
    """Worlds of all geometries under the rule, with other parameters each, and their states."""
    for seed in range(count):
        rng = np.random.default_rng((seed, 77))
        world = make_world(
            seed,
            GEOMETRIES[seed % len(GEOMETRIES)],
            multi=bool(seed % 2),
            rule=name,
            holds=example_parameters(name, rng),
            events=events,
            rates=(10 ** rng.uniform(-2, 0.5), 10 ** rng.uniform(-1, 1), rng.uniform(0, 1.2)),
            reference=bool(seed % 3),
        )
        yield world, first_state(world, seed, size=10 ** rng.uniform(-1.5, 0.3), sums=1.0)


def _gap(world: World, before: Oracle, tables: Tables, number: int) -> float:
    """The kernel's step against the oracle's: the largest error, relative to what is allowed."""
    event = world.events[number]
    after = before.copy()
    after.train(event)
    others = [_disturbed(world, before, seed) for seed in range(6)]
    for other in others:
        other.train(event)
    kernel, worst = state_of(world, tables, before), 0.0
    for side in ("user", "ad"):
        for what in ("theta", "sums", "mu"):
            was, new, got = (getattr(getattr(s, side), what) for s in (before, after, kernel))
            moved = [np.abs(getattr(getattr(other, side), what) - new) for other in others]
            size = np.abs(was) + np.abs(new)
            if new.ndim == 2:  # a vector's entries share its roundings
                size = np.max(size, axis=1, keepdims=True)
                moved = [np.max(m, axis=1, keepdims=True) for m in moved]
            allowed = 4 * np.max(moved, axis=0) + 8 * EPS * size + 1e-30
            error = np.where(np.isfinite(got), np.abs(got - new) / allowed, np.inf)
            if np.isfinite(new).all() and float(np.max(error)) > 1.0:
                at = np.unravel_index(int(np.argmax(error)), error.shape)
                values = ", ".join(f"{key}={value:.4g}" for key, value in world.holds.items())
                raise BrokenError(
                    f"{what} is {float(got[at]):.6g} after a step, but the oracle says "
                    f"{float(new[at]):.6g} (before: {float(was[at]):.6g}; {values or 'no numbers'})"
                )
            worst = max(worst, float(np.max(error[np.isfinite(error)], initial=0.0)))
    return worst


def _disturbed(world: World, state: Oracle, seed: int) -> Oracle:
    """The same state but for errors of float32's size."""
    draw, other = np.random.default_rng(seed), state.copy()
    for side in (other.user, other.ad):
        for array in (side.theta, side.sums, side.mu):
            array *= 1.0 + 4 * EPS * draw.choice([-1, 1], array.shape)
    other.bias *= 1.0 + 4 * EPS * draw.choice([-1, 1])
    other.slope_error = float(4 * EPS * draw.choice([-1, 1]))
    other.eta0 *= 1.0 + 2 * POWER[world.rates.reference] * float(draw.choice([-1, 1]))
    return other


def _digest(tables: Tables, world: World) -> bytes:
    """A hash of all rows but the scratch rows behind the user's."""
    size = 3 * world.shape.user_padded * world.k
    arrays = (tables.user[:-size], *tables[1:])
    return hashlib.sha256(b"".join(array.tobytes() for array in arrays)).digest()


def _timed(name: str) -> Callable[[], float]:
    """A function that trains on the same events and says how long it took."""
    rng = np.random.default_rng(1)
    world = make_world(
        1,
        (6, 3, 3, 4),
        multi=False,
        rule=name,
        holds=example_parameters(name, rng),
        events=2000,
        rates=(0.01, 1.0, 0.6),
        reference=False,
        values=50,
    )
    start = tables_of(world, first_state(world, 1, size=0.05, sums=1.0))
    margin = np.empty(padded(len(world.events)), np.float32)
    inputs = (world.click, world.slots("user"), world.slots("ad"))
    shape, rule = StaticShape(world.shape), world.made_rule

    def run() -> float:
        tables: Any = copied(start)
        begin = time.perf_counter()
        train_block(
            *inputs, tables, shape, world.rates, rule, 0, len(world.events), margin, CONSTANTS
        )
        return time.perf_counter() - begin

    with compiling():
        run()
    return run


def _cause(error: Exception) -> str:
    """The cause of a failed compilation in one line, with the user's line where there is one."""
    if isinstance(error, UnsupportedBytecodeError):  # its text has the place in another form
        place = re.search(r"Raised from (.+) \((\d+)\)", str(error))
        where = f"{place[1]}, line {place[2]}: " if place else ""
        return f"{where}numba cannot compile this statement: {str(error).partition(' found')[0]}"
    text = re.sub(r"\x1b\[\d*m", "", str(error))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    places = re.findall(r'File "([^"]+)", line (\d+)', text)
    own = [f"{file}, line {line}: " for file, line in places if own_code.is_origin(file)]
    causes = [
        line
        for line in lines
        if re.match(r"(No implementation|Unknown|Invalid|Untyped|.*Error)", line)
    ]
    cause = (causes or lines)[-1]
    unknown = re.search(r"name '(\w+)' is not defined", cause)
    if unknown and not own:  # numba does not say where
        own = [f"{place}: " for place in own_code.lines_with(unknown[1])]
    return f"{own[-1] if own else ''}{cause}"
