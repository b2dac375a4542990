"""The kernel against the benchmark's C anchor, which was written by hand."""

import pytest

from divergence.power import has_wide_registers
from scripts.bench.kernel import SHAPES, Work


@pytest.mark.parametrize("shape", ["K3", pytest.param("K6", marks=pytest.mark.slow)])  # compiles
def test_the_kernel_computes_the_same_bits_as_c(shape: str) -> None:
    work = Work(*SHAPES[shape], ads=300, events=1000)
    anchor = work.anchor()
    if anchor is None:
        pytest.skip("there is no C compiler, or none for this CPU")
    anchor()
    theirs = [array.tobytes() for array in work.trained]
    if has_wide_registers() and (broad := work.anchor(wide=True)) is not None:
        broad()
        assert [array.tobytes() for array in work.trained] == theirs
    work.ours("entropic", reference=True)()
    assert [array.tobytes() for array in work.trained] == theirs
    work.ours("entropic", reference=False)()
    assert [array.tobytes() for array in work.trained] != theirs, "the fast mode rounds otherwise"
