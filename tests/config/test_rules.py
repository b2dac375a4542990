"""The configs of the rules are those of the kernel's rules."""

import pytest

import divergence.rules
from orchestrator.config.rules import RULES, kernel_rule, searched
from support.configs import MINIMAL, config, mistake_lines
from trainer.setting import Setting


@pytest.mark.parametrize("name", RULES)
def test_a_rule_gets_all_its_parameters(name: str) -> None:
    rule = config(MINIMAL, f"arms.0.rule={name}").arms[0].rule
    setting = Setting(1.0, 3.0, 0.5, rho=0.1, lam=0.01, dual_step=2.0)
    got = kernel_rule(rule, setting)._asdict()
    assert set(got) == set(type(rule).model_fields) - {"name"}
    assert all(got[parameter] == getattr(setting, parameter) for parameter in searched(rule))


def test_rules_are_those_of_the_kernel_with_their_bounds() -> None:
    assert set(RULES) == set(divergence.rules.RULES)
    assert mistake_lines(MINIMAL, "arms.0.rule={name: naive, factor: 1}") == [
        "--set arms.0.rule={name: naive, factor: 1}: arms.0.rule.factor (arm a): "
        "should be greater than 1, but is 1"
    ]
    assert mistake_lines(MINIMAL, "arms.0.rule={name: entropic, rho: 0}") == [
        "--set arms.0.rule={name: entropic, rho: 0}: arms.0.rule.rho (arm a): "
        "every value must be > 0, but is 0.0"
    ]
