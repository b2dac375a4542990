"""Rules give the same bits on a simpler CPU. It compiles for long, so only two rules are tried,
which use most hooks between them; `holdfast rule check` does it for any."""

import pytest

from trainer.contract.checks import CHECKS

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("rule", ["entropic", "clippy"])
def test_a_rule_gives_the_same_bits_on_another_cpu(rule: str) -> None:
    assert CHECKS["cpu"][0](rule)
