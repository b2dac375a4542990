"""Every rule of the tree keeps the contract, and the contract notices rules that do not."""

from pathlib import Path

import pytest

from divergence import own_code
from divergence.rules import RULES
from trainer.contract.checks import CHECKS, BrokenError

every_rule = pytest.mark.parametrize("rule", sorted(RULES))

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
FILLS_PADDING = f"{HIDES_NAN} + splat(f32(1e-3))"


@every_rule
@pytest.mark.parametrize("check", ["oracle", "padding", "nan"])
def test_a_rule_of_the_tree_keeps_the_contract(rule: str, check: str) -> None:
    assert CHECKS[check][0](rule)


@pytest.mark.slow  # compiles
@every_rule
def test_a_rule_of_the_tree_gives_the_same_bits(rule: str) -> None:
    assert CHECKS["bits"][0](rule)


@pytest.mark.slow  # compiles
@pytest.mark.parametrize(
    ("body", "check", "told"),
    [
        (HIDES_NAN, "nan", "use at_least and at_most"),
        (WRONG, "oracle", "but the oracle says"),
        (FILLS_PADDING, "padding", "no longer zero"),
        ("new + nothing", "compiles", r"mine_compiles\.py, line 13"),
        ("import math; new", "imports", r"mine_imports\.py, line 13: numba cannot compile"),
    ],
)
def test_a_rule_that_breaks_it_is_noticed(body: str, check: str, told: str, tmp_path: Path) -> None:
    name = f"mine_{check}"  # a module is loaded once in a process
    before, _, value = body.rpartition("; ")
    (tmp_path / f"{name}.py").write_text(f"{HEAD}        {before or 'pass'}; return {value}\n")
    own_code.allow([tmp_path])
    with pytest.raises(BrokenError, match=told):
        CHECKS.get(check, CHECKS["compiles"])[0](f"{name}:Mine")
    own_code.allow([])
