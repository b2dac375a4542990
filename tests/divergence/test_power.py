"""The powers of a buffer: both widths give the same bits on any CPU, and the CPU's own is used."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numba import njit
from numpy.typing import NDArray

import divergence
from divergence.lanemath import CONSTANTS
from divergence.power import LANES, denominators, fast_pass, has_wide_registers, reference_pass
from divergence.simd import WIDE, WIDTH, load, load_wide, splat, wide
from trainer.contract.checks import ANOTHER_CPU, X86

Floats = NDArray[np.float32]
ROOT = Path(divergence.__file__).parent.parent
CODE = "from test_power import {0}; print({0}())"
FORMS = {WIDTH: (load, splat), WIDE: (load_wide, wide)}


class PowerRates(NamedTuple):
    """What the passes read of the rates."""

    alpha: float
    beta: float
    reference: bool


def samples() -> Floats:
    """Sums of all sizes, those that no training has among them, and not in whole lanes."""
    draw = np.random.default_rng(1)
    odd = [0.0, 1e-45, 1e-39, 1.2e-38, 3.4e38, np.inf, np.nan, 1.0, 0.5**0.5, 2.0**0.5]
    return np.array([*odd, *10.0 ** draw.uniform(-30, 30, 2035)], np.float32)


def powers_with(width: int, reference: bool, beta: float) -> Floats:
    """alpha + samples ** beta, by the passes of one width."""
    load_lanes, spread = FORMS[width]

    @njit(error_model="numpy")
    def run(dense, exponents, n, rates, constants):  # type: ignore[no-untyped-def]
        if reference:
            reference_pass(dense, exponents, n, rates, constants, load_lanes, spread, width)
        else:
            fast_pass(dense, n, rates, constants, load_lanes, spread, width)

    return ran(run, PowerRates(0.25, beta, reference))


def ran(run: Any, rates: PowerRates) -> Floats:
    """What a pass makes of the samples; it may use the room after them, but not what follows."""
    x = samples()
    buffer = np.ones(-(-len(x) // WIDE) * WIDE + WIDE, np.float32)
    buffer[: len(x)], buffer[-WIDE:] = x, 77.0
    run(buffer, np.ones_like(buffer), len(x), rates, CONSTANTS)
    assert np.all(buffer[-WIDE:] == 77.0)
    return buffer[: len(x)]


def bits_of_both_forms() -> str:
    """The bits of all passes; AssertionError where the two widths differ."""
    found = b""
    for reference in (True, False):
        for beta in (0.6, 1.5):
            narrow, broad = (powers_with(width, reference, beta) for width in FORMS)
            assert narrow.tobytes() == broad.tobytes()
            found += narrow.tobytes()
    return found.hex()


def lanes() -> int:
    """The width that this process uses."""
    return LANES


def on_another_cpu(function: str, **cpu: str) -> str:
    """What a function of this file returns in a process that compiles for another CPU."""
    path = os.pathsep.join([str(ROOT), str(Path(__file__).parent)])
    done = subprocess.run(
        [sys.executable, "-P", "-c", CODE.format(function)],
        env={**os.environ, "PYTHONPATH": path, **cpu},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.slow  # compiles, for two CPUs
def test_both_widths_give_the_same_bits_here_and_without_avx512() -> None:
    assert on_another_cpu("bits_of_both_forms", **ANOTHER_CPU) == bits_of_both_forms()


@pytest.mark.slow
def test_the_cpu_that_is_compiled_for_sets_the_width() -> None:
    assert (WIDE if has_wide_registers() else WIDTH) == LANES
    assert on_another_cpu("lanes", **ANOTHER_CPU) == str(WIDTH)
    if X86:
        features = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "+avx2,+fma,+avx512f"}
        assert on_another_cpu("lanes", **features) == str(WIDE)


@pytest.mark.parametrize("reference", [True, False])
def test_the_kernels_pass_is_the_one_of_this_width(reference: bool) -> None:
    @njit(error_model="numpy")
    def run(dense, exponents, n, rates, constants):  # type: ignore[no-untyped-def]
        denominators(dense, exponents, n, rates, constants)

    got = ran(run, PowerRates(0.25, 0.6, reference))
    assert got.tobytes() == powers_with(LANES, reference, 0.6).tobytes()


def registers() -> str:
    """Which registers the machine code of a wide pass computes with."""

    @njit(error_model="numpy")
    def run(dense, n, rates, constants):  # type: ignore[no-untyped-def]
        fast_pass(dense, n, rates, constants, load_wide, wide, WIDE)

    run(np.ones(64, np.float32), 64, PowerRates(1.0, 0.5, False), CONSTANTS)
    (code,) = run.inspect_asm().values()
    return "zmm" if any("fmadd" in x and "zmm" in x for x in code.splitlines()) else "others"


@pytest.mark.slow
@pytest.mark.skipif(not has_wide_registers(), reason="this CPU has no AVX-512")
@pytest.mark.parametrize("cpu", ["skylake-avx512", "icelake-server"])
def test_llvm_does_not_split_wide_lanes_for_cpus_that_prefer_narrow_ones(cpu: str) -> None:
    assert on_another_cpu("registers", NUMBA_CPU_NAME=cpu) == "zmm"
