"""`divergence.torch`: the numbers of the rules' oracles, any optimizer, touched rows only."""

import copy
import time
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from divergence.bound import rho0
from divergence.errors import InputError
from divergence.rules import make_rule
from divergence.torch import DivergedRow, DualAscent, diverged

pytestmark = [
    pytest.mark.slow,
    # PyTorch's own, of its own optimizers: nothing here makes a sparse tensor.
    pytest.mark.filterwarnings("ignore:Sparse invariant checks:UserWarning"),
]
OPTIMIZERS = {
    "SGD": {"lr": 0.8},
    "Adagrad": {"lr": 0.3},
    "Adam": {"lr": 0.1},
    "SparseAdam": {"lr": 0.1},
    "RMSprop": {"lr": 0.05},
}
LAZY = ("SGD", "Adagrad", "SparseAdam")
"""Those that take sparse gradients."""


def table(rows: int = 12, width: int = 4, std: float = 0.1, **options: Any) -> nn.Embedding:
    torch.manual_seed(5)
    made = nn.Embedding(rows, width, **options)
    with torch.no_grad():
        made.weight.mul_(std)
    return made


def pull(made: nn.Module, *inputs: torch.Tensor) -> None:
    """A loss that wants long rows."""
    (-made(*inputs).sum()).backward()


def optimizer_of(name: str, module: nn.Module) -> torch.optim.Optimizer:
    made: torch.optim.Optimizer = getattr(torch.optim, name)(
        list(module.parameters()), **OPTIMIZERS[name]
    )
    return made


def steps(made: nn.Module, bounds: DualAscent, optimizer: torch.optim.Optimizer, n: int) -> None:
    bounds.attach(optimizer)
    draw = np.random.default_rng(7)
    for _ in range(n):
        optimizer.zero_grad()
        pull(made, torch.from_numpy(draw.integers(1, 9, (3, 4))))
        optimizer.step()


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-9), (torch.float32, 1e-5)])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    ("name", "constants"),
    [
        ("entropic", {"dual_step": 3.0, "mu0": 0.03}),
        ("entropic", {"dual_step": 40.0, "mu_ceiling": 50.0}),
        ("euclidean", {"dual_step": 2.0, "mu0": 0.03, "mu_floor": 0.0}),
        ("holdfast", {"dual_step": 5.0, "damping": 0.0, "wall": 1.5}),
    ],
)
def test_a_batch_of_one_with_sgd_gives_the_numbers_of_the_oracle(
    name: str, constants: dict[str, float], sparse: bool, dtype: torch.dtype, tolerance: float
) -> None:
    """100 events of a factorization model, log-loss and a constant step: every single step."""
    rate, tables = 0.7, [table(std=std, sparse=sparse).to(dtype) for std in (0.1, 0.3)]
    own = {} if name == "holdfast" else {"implicit": True, "penalty_in_sum": False}
    rule = make_rule(name, rho=0.2, **constants, **own)
    bounds = DualAscent(tables, rule=name, rho=0.2, **constants)
    optimizer = torch.optim.SGD([one.weight for one in tables], lr=rate)
    bounds.attach(optimizer)
    draw = np.random.default_rng(3)
    largest = 0.0
    for rows in draw.integers(0, 4, (100, 2)):
        sign = 1.0 if rows.sum() % 2 else -1.0
        theta = [
            one.weight.detach().double().numpy()[row] for one, row in zip(tables, rows, strict=True)
        ]
        mu = [float(bounds.multipliers[key][row]) for key, row in zip("01", rows, strict=True)]
        slope = -sign / (1 + np.exp(sign * theta[0] @ theta[1]))
        optimizer.zero_grad()
        users, items = (
            one(torch.tensor([int(row)])) for one, row in zip(tables, rows, strict=True)
        )
        nn.functional.softplus(-sign * (users * items).sum()).backward()
        expected = [
            rule.oracle(theta[side], slope * theta[1 - side], 0.0, mu[side], lambda _: rate)
            for side in (0, 1)
        ]
        optimizer.step()
        for side, (vector, _, risen) in enumerate(expected):
            now = tables[side].weight.detach().double().numpy()[rows[side]]
            scale = max(np.abs(vector).max(), np.abs(theta[side]).max())
            np.testing.assert_allclose(now, vector, rtol=0, atol=tolerance * scale)
            mu_now = float(bounds.multipliers[str(side)][rows[side]])
            assert mu_now == pytest.approx(risen, rel=100 * tolerance)
            largest = max(largest, mu_now)
    assert largest > 10 * rule.mu0  # the bound was at work


@pytest.mark.parametrize("rule", ["entropic", "euclidean", "holdfast"])
@pytest.mark.parametrize("name", ["SGD", "Adagrad"])
def test_sparse_and_dense_gradients_give_the_same(rule: str, name: str) -> None:
    made = [table(sparse=sparse) for sparse in (False, True)]
    bounds = [DualAscent(one, rule=rule, rho=0.1) for one in made]
    for one, bound in zip(made, bounds, strict=True):
        steps(one, bound, optimizer_of(name, one), 12)
    torch.testing.assert_close(made[0].weight, made[1].weight)
    mu = [bound.multipliers["table"] for bound in bounds]
    torch.testing.assert_close(*mu, rtol=1e-4, atol=0)  # exp(30 * rounding)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_rows_without_events_stay_as_they_are(name: str) -> None:
    made = table(sparse=name in LAZY, padding_idx=0)
    before = made.weight.detach().clone()
    bounds = DualAscent(made, rho=0.02)
    steps(made, bounds, optimizer_of(name, made), 10)
    for row in (0, 9, 10, 11):
        assert torch.equal(made.weight[row], before[row])
        assert bounds.multipliers["table"][row] == np.float32(1e-4)
    assert (made.weight[1:9] != before[1:9]).all()
    assert bounds.multipliers["table"][1:9].max() > 1e-3


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_no_row_passes_the_wall_with_any_optimizer(name: str) -> None:
    """Momentum moves rows that a batch does not touch: they are held, too."""
    made, free = table(sparse=name in LAZY), table(sparse=name in LAZY)
    bounds = DualAscent(made, rho=0.05, wall=2.0, damping=0.3)
    optimizer = optimizer_of(name, made)
    bounds.attach(optimizer)
    plain = optimizer_of(name, free)
    for n in range(40):
        for one, stepping in ((made, optimizer), (free, plain)):
            stepping.zero_grad()
            pull(one, torch.tensor([n % 7]))
            stepping.step()
        assert made.weight.detach()[:7].square().mean(1).max() <= 0.05 * 2 * (1 + 1e-5)
    assert free.weight.detach().square().mean(1).max() > 0.2


@pytest.mark.parametrize("rule", ["entropic", "euclidean"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_dual_ascent_brings_rows_back_to_the_bound(rule: str, name: str) -> None:
    made = table(sparse=name in LAZY)
    bounds = DualAscent(made, rule=rule, rho=0.3, dual_step=1.0)
    steps(made, bounds, optimizer_of(name, made), 150)
    assert made.weight.detach()[1:9].square().mean(1).mean() < 2 * 0.3
    free = table(sparse=name in LAZY)
    optimizer = optimizer_of(name, free)
    for _ in range(150):
        pull(free, torch.arange(1, 9))
        optimizer.step()
        optimizer.zero_grad()
    assert free.weight.detach()[1:9].square().mean(1).mean() > 4 * 0.3


def test_a_damped_row_moves_less_than_a_share_of_its_bound() -> None:
    made = table(sparse=True)
    before = made.weight.detach().clone()
    bounds = DualAscent(made, rho=0.25, damping=4.0, mu0=1e-12, mu_floor=0.0)
    optimizer = torch.optim.SGD(made.parameters(), lr=1.0)
    bounds.attach(optimizer)
    weights = torch.tensor([1e6, 1e-3])
    (made(torch.tensor([1, 2])).sum(1) @ weights).backward()
    optimizer.step()
    moves = (made.weight.detach() - before).norm(dim=1)
    assert moves[1] == pytest.approx(np.sqrt(0.25 * 4) / 4.0, rel=1e-4)  # the longest there is
    assert moves[2] == pytest.approx(1e-3 * 2, rel=1e-3)  # small moves stay as they are


def test_several_optimizers_a_schedule_and_a_step_by_hand_give_the_same() -> None:
    def model() -> nn.ModuleList:
        return nn.ModuleList([table(), table(std=0.12), nn.Linear(4, 1)])

    def go(made: nn.ModuleList, step: Any) -> None:
        for n in range(6):
            made.zero_grad()
            rows = torch.tensor([n, n + 1])
            made[2](made[0](rows) * made[1](rows)).sum().backward()
            step()

    torch.manual_seed(1)
    whole = model()
    others = [copy.deepcopy(whole) for _ in range(2)]
    bounds = [DualAscent(one, rho=0.03, damping=1.0) for one in (whole, *others)]
    one = torch.optim.Adagrad(whole.parameters(), lr=0.5)
    bounds[0].attach(one)
    torch.optim.lr_scheduler.StepLR(one, 100)  # wraps the step
    go(whole, lambda: one.step())
    several = [torch.optim.Adagrad(part.parameters(), lr=0.5) for part in others[0]]
    bounds[1].attach(*several)
    go(others[0], lambda: [part.step() for part in several])
    bare = torch.optim.Adagrad(others[1].parameters(), lr=0.5)

    def by_hand() -> None:
        bounds[2].before_step()
        bare.step()
        bounds[2].after_step()

    go(others[1], by_hand)
    for other, bound in zip(others, bounds[1:], strict=True):
        for table_number in (0, 1):
            assert torch.equal(other[table_number].weight, whole[table_number].weight)
            name = str(table_number)
            assert torch.equal(bound.multipliers[name], bounds[0].multipliers[name])
    assert bounds[0].multipliers["1"].max() > 1e-3


@pytest.mark.parametrize("mode", ["sum", "mean"])
@pytest.mark.parametrize("sparse", [False, True])
def test_bags_are_the_same_as_rows(mode: str, sparse: bool) -> None:
    bags = nn.EmbeddingBag(12, 4, mode=mode, sparse=sparse, padding_idx=0)
    rows = table(padding_idx=0)
    bags.load_state_dict(rows.state_dict())
    bounds = [DualAscent(one, rule="entropic", rho=0.1) for one in (bags, rows)]
    optimizers = [torch.optim.Adagrad(one.parameters(), lr=0.5) for one in (bags, rows)]
    inputs, offsets = torch.tensor([1, 2, 0, 2, 3, 5, 5]), torch.tensor([0, 3, 5])
    weights = {"sum": [1.0, 1, 1, 1, 1, 1, 1], "mean": [0.5, 0.5, 0, 0.5, 0.5, 0.5, 0.5]}[mode]
    for bound, optimizer in zip(bounds, optimizers, strict=True):
        bound.attach(optimizer)
    for _ in range(8):
        for optimizer in optimizers:
            optimizer.zero_grad()
        pull(bags, inputs, offsets)
        (-torch.tensor(weights) @ rows(inputs).sum(1)).backward()
        for optimizer in optimizers:
            optimizer.step()
    torch.testing.assert_close(bags.weight, rows.weight)
    torch.testing.assert_close(bounds[0].multipliers["table"], bounds[1].multipliers["table"])


@pytest.mark.parametrize("name", ["Adagrad", "Adam"])
def test_a_resumed_training_has_the_same_bits(name: str, tmp_path: Any) -> None:
    def go(made: nn.Embedding, optimizer: Any, rows: list[int]) -> None:
        for row in rows:
            optimizer.zero_grad()
            pull(made, torch.tensor([row, row + 1]))
            optimizer.step()

    rows = [1, 2, 3, 1, 4, 2, 3, 3, 5, 1, 2]
    whole = table()
    bounds, optimizer = DualAscent(whole, rho=0.1), optimizer_of(name, whole)
    bounds.attach(optimizer)
    go(whole, optimizer, rows[:6])
    state = [one.state_dict() for one in (whole, optimizer, bounds)]
    torch.save(state, tmp_path / "state.pt")
    go(whole, optimizer, rows[6:])

    again = table()
    second, later = DualAscent(again, rho=0.1), optimizer_of(name, again)
    second.attach(later)
    loaded = torch.load(tmp_path / "state.pt", weights_only=True)
    for one, given in zip((again, later, second), loaded, strict=True):
        one.load_state_dict(given)
    go(again, later, rows[6:])
    assert torch.equal(again.weight, whole.weight)
    assert torch.equal(second.multipliers["table"], bounds.multipliers["table"])


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("rule", ["entropic", "euclidean", "holdfast"])
@pytest.mark.parametrize("sparse", [False, True])
def test_what_is_not_finite_stays_so_and_spreads_to_no_other_row(
    bad: float, rule: str, sparse: bool
) -> None:
    made = table(sparse=sparse)
    bounds = DualAscent(made, rule=rule, rho=0.1)
    optimizer = torch.optim.SGD(made.parameters(), lr=0.1)
    bounds.attach(optimizer)
    weights = torch.tensor([1.0, bad, 1e-30])  # the last: its own move is lost in rounding
    (made(torch.tensor([1, 2, 3])).sum(1) * weights).sum().backward()
    optimizer.step()
    assert not torch.isfinite(made.weight[2]).all()
    assert torch.isfinite(made.weight[[0, 1, *range(3, 12)]]).all()
    assert torch.isfinite(bounds.multipliers["table"][[1, 3]]).all()
    found = bounds.diverged()
    assert found is not None
    assert (found.table, found.row) == ("table", 2)


def test_a_huge_step_does_not_overflow() -> None:
    made = table()
    bounds = DualAscent(made, rho=0.1, wall=2.0)
    optimizer = torch.optim.SGD(made.parameters(), lr=1e30)
    bounds.attach(optimizer)
    pull(made, torch.tensor([1]))
    optimizer.step()
    assert float(made.weight.detach()[1].norm()) > 0.01
    assert bounds.diverged() is None


def test_the_row_that_diverged() -> None:
    model = nn.ModuleDict({"user": table(), "deep": nn.ModuleDict({"item": table()})})
    assert diverged(model) is None
    with torch.no_grad():
        model["user"].weight[3, 1] = -16.0
        model["deep"]["item"].weight[2, 0] = 17.0
    assert diverged(model) == DivergedRow("deep.item", 2, 17.0)
    assert diverged([model["user"]], tau=16.0) == DivergedRow("0", 3, 16.0)
    assert diverged(model, tau=17.5) is None
    with torch.no_grad():
        model["user"].weight[5, 1] = float("nan")
    found = diverged(model)
    assert found is not None
    assert (found.table, found.row) == ("user", 5)
    assert np.isnan(found.inf)


def test_tables_are_found_once_and_frozen_ones_left_out() -> None:
    shared = table()
    frozen = table().requires_grad_(False)
    model = nn.ModuleList([shared, nn.Linear(4, 4), nn.Sequential(shared), frozen])
    bounds = DualAscent(model, k=0.1)
    assert list(bounds.multipliers) == ["0"]
    assert bounds.rules["0"].rho == pytest.approx(0.1 * rho0(4))


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({}, "DualAscent needs k or rho, and not both, but got (k=None, rho=None)"),
        ({"k": 1.0, "rho": 1.0}, "DualAscent needs k or rho, and not both"),
        ({"k": -1.0}, "k must be > 0 and finite, but is -1.0"),
        ({"k": float("nan")}, "k must be > 0 and finite, but is nan"),
        ({"rho": 0.0}, "rule holdfast: rho must be > 0, but is 0.0"),
        ({"rho": float("nan")}, "rule holdfast: rho must be > 0, but is nan"),
        ({"rho": 1.0, "rule": "l2"}, "rule 'l2' is unknown here; the rules are entropic, euc"),
        ({"rho": 1.0, "wall": 0.5}, "rule holdfast: wall must be >= 1, but is 0.5"),
        ({"rho": 1.0, "rule": "entropic", "wall": 2.0}, "rule entropic has no parameter wall"),
        ({"rho": 1.0, "rule": "entropic", "implicit": False}, "implicit cannot be set"),
        ({"rho": 1.0, "mu_floor": 2.0, "mu_ceiling": 1.0}, "mu_floor <= mu_ceiling must hold"),
        ({"rho": 1.0, "modules": nn.Linear(2, 2)}, "found no trainable nn.Embedding"),
        ({"rho": 1.0, "modules": [3]}, "takes an nn.Module or a list of them, but got int"),
    ],
)
def test_mistakes_are_one_line(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError) as caught:
        DualAscent(wrong.pop("modules", table()), **wrong)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_mistakes_of_use() -> None:
    made = table()
    bounds = DualAscent(made, rho=0.1)
    with pytest.raises(InputError, match="no optimizer has the weight of table 'table'"):
        bounds.attach(torch.optim.SGD(nn.Linear(2, 2).parameters(), lr=1.0))
    with pytest.raises(InputError, match=r"table 'table' has 12 rows, but the state has 5"):
        bounds.load_state_dict(DualAscent(table(5), rho=0.1).state_dict())
    with pytest.raises(InputError, match="table '0' is in the state only"):
        bounds.load_state_dict(DualAscent([table()], rho=0.1).state_dict())
    with pytest.raises(InputError, match="tau must be > 0, but is -1"):
        bounds.diverged(-1)
    with pytest.raises(InputError, match="table '1'"):
        DualAscent([made, table()], rho=0.1).attach(torch.optim.SGD(made.parameters(), lr=1.0))
    optimizer = torch.optim.LBFGS(made.parameters())
    bounds.attach(optimizer)
    with pytest.raises(InputError, match="gradients of a closure"):
        optimizer.step(lambda: made.weight.sum())


def test_a_table_that_begins_above_its_bound_is_named() -> None:
    with pytest.warns(UserWarning, match=r"table 'table': \d+ of 12 rows begin above rho = 0.1 "):
        DualAscent(table(std=1.0), rho=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        DualAscent(table(std=0.1), rho=0.1)


def test_the_cost_follows_the_touched_rows() -> None:
    """1,000 rows of 1,000,000, with a sparse gradient: far from a pass over the table."""
    made = nn.Embedding(1_000_000, 16, sparse=True)
    with torch.no_grad():
        made.weight.mul_(0.1)
    bounds = DualAscent(made, rho=0.1)
    rows = torch.randperm(1_000_000)[:1000]
    made(rows).sum().backward()

    def seconds(call: Any) -> float:
        begin = time.process_time()
        call()
        return time.process_time() - begin

    def hold() -> None:
        bounds.before_step()
        bounds.after_step()

    hold()
    one_pass = min(seconds(lambda: made.weight.detach().square().sum(1)) for _ in range(5))
    assert min(seconds(hold) for _ in range(10)) < one_pass / 4
