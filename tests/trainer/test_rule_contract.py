"""Every rule of the tree keeps the contract, and the contract notices rules that do not."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from divergence import own_code
from divergence.rules import RULES
from support.strategies import of_rule
from trainer.contract.checks import CHECKS, BrokenError

every_rule = pytest.mark.parametrize("rule", [of_rule(rule) for rule in sorted(RULES)])

HEAD = """
from typing import NamedTuple
import numpy as np
from divergence.lanemath import f32
from divergence.simd import larger, smaller, splat
class Mine(NamedTuple):
    limit: float = 3.0
    def oracle(self, theta, g, sums, mu, step):
        sums = sums + np.abs(g)
        return np.clip(theta - step(sums) * g, -self.limit, self.limit), sums, mu
    def move(self, c, theta, g, eta0, denominator):
        new = theta - (eta0 * g) / denominator
"""
HIDES_NAN = "smaller(larger(new, splat(-f32(self.limit))), splat(f32(self.limit)))"
WRONG = f"splat(f32(0.5)) * {HIDES_NAN}"
FILLS_PADDING = "splat(f32(1e-3))"


@pytest.fixture
def own_rule(tmp_path: Path) -> Iterator[Callable[[str, str], str]]:
    """Writes a rule into a module of its own (one is loaded once in a process); gives its name."""

    def write(module: str, moved: str) -> str:
        before, _, value = moved.rpartition("; ")
        text = f"{HEAD}        {before or 'pass'}; return {value}\n"
        (tmp_path / f"{module}.py").write_text(text)
        return f"{module}:Mine"

    own_code.allow([tmp_path])
    yield write
    own_code.allow([])


@every_rule
@pytest.mark.parametrize("check", ["oracle", "padding", "nan"])
def test_a_rule_of_the_tree_keeps_the_contract(rule: str, check: str) -> None:
    assert CHECKS[check][0](rule)


@pytest.mark.slow  # compiles
@every_rule
def test_a_rule_of_the_tree_gives_the_same_bits(rule: str) -> None:
    assert CHECKS["bits"][0](rule)


@pytest.mark.slow  # compiles
def test_a_rule_that_breaks_it_is_noticed(own_rule: Callable[[str, str], str]) -> None:
    """By three checks that look at different things, so that one kernel serves them all."""
    name = own_rule("mine_broken", f"{WRONG} + {FILLS_PADDING}")
    for check, told in (
        ("nan", "use at_least and at_most"),
        ("oracle", "but the oracle says"),
        ("padding", "no longer zero"),
    ):
        with pytest.raises(BrokenError, match=told):
            CHECKS[check][0](name)


@pytest.mark.slow  # compiles
@pytest.mark.parametrize(
    ("name", "body", "told"),
    [
        ("mine_uncompiled", "new + nothing", "line 13"),
        ("mine_imports", "import math; new", "line 13: numba cannot compile"),
    ],
)
def test_a_rule_that_does_not_compile_is_named_with_its_line(
    name: str, body: str, told: str, own_rule: Callable[[str, str], str]
) -> None:
    with pytest.raises(BrokenError, match=rf"{name}\.py, {told}"):
        CHECKS["compiles"][0](own_rule(name, body))
