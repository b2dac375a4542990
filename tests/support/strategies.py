"""What hypothesis draws: geometries, settings, rules and the states that training starts from."""

import math
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from support.oracle import Oracle
from support.worlds import World, first_state, make_world

Draw = Any

PROPERTY = settings(
    derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
"""The same examples in every run: a test that fails for one person fails for all."""


def examples(count: int) -> int:
    """How many examples to draw: this many in the full lane, a quarter of them in the quick one."""
    return max(1, count * settings.default.max_examples // 100)


def log_uniform(low: float, high: float) -> st.SearchStrategy[float]:
    """Spread over orders of magnitude."""
    return st.floats(math.log(low), math.log(high)).map(math.exp)


_dual = {
    "rho": log_uniform(0.01, 2.0),
    "mu_floor": st.sampled_from([0.0, 0.01, 0.1]),
    "mu_ceiling": st.sampled_from([1.0, 1e6]),
    "implicit": st.booleans(),
    "penalty_in_sum": st.booleans(),
}
_dual_step = {"dual_step": log_uniform(0.1, 20.0)}
HOLDS: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "none": {},
    "l2": {"lam": log_uniform(1e-4, 0.5)},
    "naive": {**_dual, "factor": st.floats(1.01, 3.0)},
    "euclidean": {**_dual, **_dual_step},
    "entropic": {**_dual, **_dual_step},
    "projection": {"rho": log_uniform(0.003, 1.0)},
    "gradient_clip": {"limit": log_uniform(1e-3, 1.0)},
    "max_norm": {"limit": log_uniform(0.1, 3.0)},
    "clippy": {"relative": st.floats(0.0, 1.0), "absolute": log_uniform(1e-4, 0.3)},
    "decay": {"rate": st.floats(0.0, 0.5)},
}
FULL_LANE = ("clippy", "decay", "euclidean", "gradient_clip", "max_norm", "naive", "projection")
"""Rules that the quick lane leaves out: it takes seconds to compile the kernel of each."""


def of_rule(rule: str, *more: Any) -> Any:
    """Parameters of a test, the first of which is a rule."""
    return pytest.param(rule, *more, marks=pytest.mark.slow if rule in FULL_LANE else ())


every_rule = pytest.mark.parametrize("rule", [of_rule(rule) for rule in sorted(HOLDS)])

geometries = st.tuples(
    st.integers(1, 6), st.integers(0, 10), st.integers(0, 10), st.integers(1, 4)
).filter(lambda g: g[0] * (g[0] - 1) // 2 * g[1] + g[0] * g[2] > 0)


@st.composite
def starts(
    draw: Draw, rule: str, *, events: int, hot: bool = False, values: int = 3
) -> tuple[World, Oracle]:
    """A world under this rule and a state to begin with; where `hot`, one that may diverge."""
    eta0 = log_uniform(0.5, 30.0) if hot else log_uniform(0.005, 5.0)
    rates = (draw(eta0), draw(log_uniform(0.02, 10.0)), draw(st.floats(0.0, 1.5)))
    seed = draw(st.integers(0, 2**32 - 1))
    world = make_world(
        seed,
        draw(geometries),
        multi=draw(st.booleans()),
        rule=rule,
        holds={name: draw(strategy) for name, strategy in HOLDS[rule].items()},
        events=events,
        rates=rates,
        tau=draw(st.sampled_from([2.0, 15.0])) if hot else 15.0,
        reference=draw(st.booleans()),
        values=values,
    )
    size, sums = draw(log_uniform(0.02, 1.0)), draw(st.sampled_from([0.0, 1e-3, 1.0, 100.0]))
    return world, first_state(world, seed, size=size, sums=sums)
