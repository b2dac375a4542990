"""Rules by name: what they take, what they refuse, and how a new one is found."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import divergence.rules as rules
from divergence.errors import InputError
from divergence.rules import RULES, make_rule
from divergence.rules.hooks import HOOKS
from trainer.contract.examples import required_parameters

REQUIRED = {name: required_parameters(name) for name in RULES}
PAPERS = {"none", "l2", "naive", "euclidean", "entropic", "projection"}
every_rule = pytest.mark.parametrize("name", sorted(RULES))


def test_the_rules_of_the_paper_and_of_practice_are_there() -> None:
    assert set(RULES) >= PAPERS | {"gradient_clip", "max_norm", "clippy", "decay"}


@every_rule
def test_a_rule_needs_only_what_has_no_default(name: str) -> None:
    kind: Any = RULES[name]
    rule = make_rule(name, **REQUIRED[name])
    assert type(rule) is kind
    assert set(kind._fields) - set(kind._field_defaults) == set(REQUIRED[name])
    for field, default in kind._field_defaults.items():
        assert getattr(rule, field) == default


@every_rule
def test_numbers_become_floats_and_switches_stay(name: str) -> None:
    """One type a field, so that one compilation serves every setting."""
    kind: Any = RULES[name]
    rule = make_rule(name, **dict.fromkeys(REQUIRED[name], 1))
    for field in kind._fields:
        switch = isinstance(kind._field_defaults.get(field), bool)
        assert type(getattr(rule, field)) is (bool if switch else float)


@every_rule
def test_a_rule_overrides_known_hooks_only(name: str) -> None:
    kind: Any = RULES[name]
    own = {n for n in vars(kind) if not n.startswith("_") and n not in kind._fields}
    assert own - {"count", "index"} <= {*HOOKS, "oracle"}


@every_rule
def test_a_rule_explains_itself(name: str) -> None:
    module = importlib.import_module(f"divergence.rules.{name}")
    assert module.__doc__ is not None
    assert module.__doc__.startswith(f"`{name}`:")


def refusal(name: str, **parameters: float) -> str:
    with pytest.raises(InputError) as caught:
        make_rule(name, **parameters)
    return str(caught.value)


def test_an_unknown_rule() -> None:
    assert refusal("entropy") == (
        f"rule 'entropy' is unknown; the rules are {', '.join(RULES)}, or module:Class for your own"
    )


def test_an_unknown_parameter() -> None:
    assert refusal("l2", lam=1.0, rho=2.0) == "rule l2 has no parameter rho; it takes lam"
    assert refusal("none", lam=1.0) == "rule none has no parameter lam; it takes no parameters"


def test_a_missing_parameter() -> None:
    assert refusal("naive") == (
        "rule naive needs rho; it takes rho, factor, mu0, mu_floor, mu_ceiling, implicit, "
        "penalty_in_sum"
    )


@pytest.mark.parametrize(
    ("name", "field", "value", "bound"),
    [
        ("l2", "lam", -0.1, ">= 0"),
        ("naive", "rho", 0.0, "> 0"),
        ("naive", "factor", 1.0, "> 1"),
        ("naive", "mu0", 0.0, "> 0"),
        ("euclidean", "dual_step", 0.0, "> 0"),
        ("euclidean", "mu_floor", -1.0, ">= 0"),
        ("entropic", "rho", -2.0, "> 0"),
        ("entropic", "dual_step", -1.0, "> 0"),
        ("entropic", "mu_ceiling", 0.0, "> 0"),
        ("projection", "rho", 0.0, "> 0"),
        ("gradient_clip", "limit", 0.0, "> 0"),
        ("max_norm", "limit", -1.0, "> 0"),
        ("clippy", "relative", -0.5, ">= 0"),
        ("clippy", "absolute", 0.0, "> 0"),
        ("holdfast", "damping", -1.0, ">= 0"),
        ("holdfast", "wall", 0.5, ">= 1"),
        ("decay", "rate", 1.0, "< 1"),
        ("decay", "rate", -0.1, ">= 0"),
        ("entropic", "rho", float("nan"), "> 0"),
        ("l2", "lam", float("nan"), ">= 0"),
    ],
)
def test_an_impossible_value(name: str, field: str, value: float, bound: str) -> None:
    message = refusal(name, **{**REQUIRED[name], field: value})
    assert message == f"rule {name}: {field} must be {bound}, but is {value}"


NEW_RULE = '''"""`clamp`: entries are cut off at a limit."""

from typing import Annotated, NamedTuple

from annotated_types import Gt


class Clamp(NamedTuple):
    """A rule for a test."""

    limit: Annotated[float, Gt(0)] = 2.0
'''


@pytest.fixture
def with_clamp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder with one more file, searched as if it were part of the rules' own."""
    (tmp_path / "clamp.py").write_text(NEW_RULE)
    monkeypatch.setattr(rules, "__path__", [*rules.__path__, str(tmp_path)])
    yield
    sys.modules.pop("divergence.rules.clamp", None)
    vars(rules).pop("clamp", None)


@pytest.mark.usefixtures("with_clamp")
def test_a_new_file_is_a_new_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    found = dict(rules._discovered())
    assert set(found) == {*RULES, "clamp"}
    monkeypatch.setitem(RULES, "clamp", found["clamp"])
    assert make_rule("clamp") == (2.0,)
    assert refusal("clamp", limit=0.0) == "rule clamp: limit must be > 0, but is 0.0"


def test_the_new_rule_is_gone_again() -> None:
    assert "clamp" not in RULES
    assert "divergence.rules.clamp" not in sys.modules


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"mu_floor": 2.0, "mu_ceiling": 1.0},
         "rule entropic: mu_floor <= mu_ceiling must hold, but got (mu_floor=2.0, mu_ceiling=1.0)"),
        ({"dual_step": float("inf")}, "rule entropic: dual_step must be finite, but is inf"),
    ],
)  # fmt: skip
def test_impossible_multipliers_are_refused(parameters: dict[str, float], message: str) -> None:
    with pytest.raises(InputError) as caught:
        make_rule("entropic", **{"rho": 1.0, "dual_step": 1.0} | parameters)
    assert str(caught.value) == message
