"""The oracle is right: the paper's figure, and gradients against finite differences."""

import math

import numpy as np
import pytest

from support.oracle import Bags, Event, Oracle, OracleSide, log_loss, places, slope, user_vector

H = 1e-6


def bag_of(draw: np.random.Generator, rows: int, values: int) -> tuple[tuple[int, float], ...]:
    chosen = draw.choice(rows, size=values, replace=False)
    weights = draw.uniform(0.1, 1.0, values)
    return tuple((int(r), float(w)) for r, w in zip(chosen, weights / weights.sum(), strict=True))


def random_oracle(draw: np.random.Generator, k: int, overlap: int, alone: int) -> Oracle:
    d, n = (k - 1) * overlap + alone, k * (k - 1) // 2 * overlap + k * alone
    sides = [
        OracleSide(draw.normal(0, 0.7, (9, width)), draw.uniform(0, 2, (9, width)), np.full(9, 0.3))
        for width in (d, n)
    ]
    return Oracle(k, overlap, alone, *sides, eta0=0.3, alpha=0.5, beta=0.6, bias=0.2)


def random_event(draw: np.random.Generator, k: int, ads: int) -> Event:
    def bags(features: int) -> Bags:
        # Feature f has the rows 3f, 3f + 1 and 3f + 2 of nine: no vector is met twice.
        return tuple(
            tuple((3 * f + r, w) for r, w in bag_of(draw, 3, 1 + int(draw.integers(3))))
            for f in range(features)
        )

    return Event(int(draw.integers(2)), bags(k), bags(ads))


def test_the_figure() -> None:
    """K=3, o=4, s=2: age, gender and geo of length 10, filled with ones and multiplied, make 18."""
    where = places(3, 4, 2)
    assert [len(w) for w in where] == [10, 10, 10]
    age, gender, geo = (np.arange(100.0 * f + 2, 100.0 * f + 12) for f in range(3))
    built = user_vector([age, gender, geo], where, 18)
    by_hand = [
        *age[0:4] * gender[0:4],
        *age[4:8] * geo[0:4],
        *gender[4:8] * geo[4:8],
        *age[8:10],
        *gender[8:10],
        *geo[8:10],
    ]
    np.testing.assert_array_equal(built, by_hand)


@pytest.mark.parametrize(("k", "overlap", "alone"), [(1, 3, 2), (2, 1, 0), (3, 4, 2), (5, 2, 3)])
def test_every_pair_meets_in_o_entries_and_every_feature_is_alone_in_s(
    k: int, overlap: int, alone: int
) -> None:
    where = places(k, overlap, alone)
    n = k * (k - 1) // 2 * overlap + k * alone
    owners = [{f for f in range(k) if entry in where[f]} for entry in range(n)]
    for f in range(k):
        assert len(set(where[f])) == len(where[f]) == (k - 1) * overlap + alone
        assert owners.count({f}) == alone
        for other in range(f):
            assert owners.count({f, other}) == overlap


@pytest.mark.parametrize("seed", range(6))
def test_gradients_are_finite_differences(seed: int) -> None:
    draw = np.random.default_rng(seed)
    k, overlap, alone = [(1, 0, 3), (2, 2, 0), (3, 4, 2), (3, 1, 1), (2, 0, 2), (3, 0, 1)][seed]
    model, event = random_oracle(draw, k, overlap, alone), random_event(draw, k, 2)
    gradients = list(model.gradients(event))
    touched = [row for bag in event.user + event.ad for row, _ in bag]
    assert [row for _, row, _ in gradients] == touched
    for side, row, gradient in gradients:
        for j in range(len(gradient)):
            before = side.theta[row, j]
            side.theta[row, j] = before + H
            above = model.loss(event)
            side.theta[row, j] = before - H
            below = model.loss(event)
            side.theta[row, j] = before
            assert gradient[j] == pytest.approx((above - below) / (2 * H), rel=1e-6, abs=1e-9)


DUAL_HOLDS = {"rho": 0.2, "dual_step": 1.0, "implicit": False, "penalty_in_sum": False}


@pytest.mark.parametrize(("rule", "holds"), [("l2", {"lam": 0.7}), ("entropic", DUAL_HOLDS)])
def test_the_penalised_step_follows_the_penalised_loss(rule: str, holds: dict[str, float]) -> None:
    """From zero sums at beta = 0 the step is eta0 / (alpha + 1) times the whole gradient."""
    draw = np.random.default_rng(3)
    model, event = random_oracle(draw, 3, 2, 1), random_event(draw, 3, 2)
    model.rule, model.beta, model.holds = rule, 0.0, holds

    def penalised(side: OracleSide, row: int) -> float:
        square = float(side.theta[row] @ side.theta[row])
        if rule == "l2":
            return model.loss(event) + holds["lam"] / 2 * square
        return model.loss(event) + float(side.mu[row]) * square / side.theta.shape[1]

    slopes = []
    for side, row, _ in model.gradients(event):
        slopes.append(np.zeros(side.theta.shape[1]))
        for j in range(side.theta.shape[1]):
            before = side.theta[row, j]
            side.theta[row, j] = before + H
            above = penalised(side, row)
            side.theta[row, j] = before - H
            below = penalised(side, row)
            side.theta[row, j] = before
            slopes[-1][j] = (above - below) / (2 * H)
    start = model.copy()
    model.train(event)
    old = [start.user if side is model.user else start.ad for side, *_ in model.gradients(event)]
    for (side, row, _), was, expected in zip(model.gradients(event), old, slopes, strict=True):
        moved = (was.theta[row] - side.theta[row]) * (0.5 + 1.0) / 0.3
        np.testing.assert_allclose(moved, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("logit", [-1e5, -40.0, -1.0, 0.0, 1e-9, 3.0, 40.0, 1e5])
@pytest.mark.parametrize("click", [0, 1])
def test_loss_and_slope_at_any_logit(logit: float, click: int) -> None:
    """loss' = p - y, and the two labels' losses differ by the logit."""
    assert 0.0 <= log_loss(logit, click) < math.inf
    assert log_loss(logit, 0) - log_loss(logit, 1) == pytest.approx(logit, abs=1e-12)
    assert slope(logit, 0) - slope(logit, 1) == pytest.approx(1.0, abs=1e-15)
    h = 1e-4
    numeric = (log_loss(logit + h, click) - log_loss(logit - h, click)) / (2 * h)
    assert slope(logit, click) == pytest.approx(numeric, rel=1e-6, abs=1e-7)


def test_the_first_step_by_hand() -> None:
    """K=1, o=0, s=1, one ad feature: numbers small enough for paper and pencil."""
    side = [OracleSide(np.array([[v]]), np.array([[0.0]]), np.array([0.0])) for v in (2.0, 0.5)]
    model = Oracle(1, 0, 1, *side, eta0=0.1, alpha=1.0, beta=0.5)
    event = Event(1, (((0, 1.0),),), (((0, 1.0),),))
    assert model.logit(event) == 1.0
    error = 1 / (1 + math.exp(-1.0)) - 1
    assert model.train(event)
    assert model.user.theta[0, 0] == pytest.approx(
        2.0 - 0.1 / (1 + math.sqrt(abs(0.5 * error))) * 0.5 * error
    )
    assert model.ad.theta[0, 0] == pytest.approx(
        0.5 - 0.1 / (1 + math.sqrt(abs(2.0 * error))) * 2.0 * error
    )
    assert model.bias == pytest.approx(-0.1 / (1 + math.sqrt(abs(error))) * error)
    assert (model.user.sums[0, 0], model.ad.sums[0, 0], model.bias_sum) == pytest.approx(
        (0.5 * abs(error), 2.0 * abs(error), abs(error))
    )
