"""A two-tower model of MovieLens 100K in PyTorch, trained with an optimizer and a rule."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits as log_loss

from divergence.bound import rho0
from divergence.torch import DualAscent, diverged

WIDTH, BATCH, EPOCHS, TEST_SHARE = 16, 256, 2, 0.2
K = 0.1
TAU = 15.0
AGES = (18, 25, 35, 45, 50, 56)
GENRES = 6
"""A movie's genres beyond these are left out; none has so many."""


@dataclass(frozen=True, slots=True, eq=False)
class Ratings:
    """Row numbers [events, features] of each tower's table, its size, and the clicks."""

    user: Tensor
    users: int
    item: Tensor
    items: int
    click: Tensor


@dataclass(frozen=True, slots=True)
class TowerTrial:
    """One training."""

    optimizer: str
    step_size: float
    rule: str
    seed: int


@dataclass(frozen=True, slots=True)
class TowerResult:
    """When it diverged (None: never), test log-losses by epoch, the largest |entry| by step.

    `constant` is the test log-loss of predicting the share of clicks.
    """

    constant: float
    diverged_at: int | None
    losses: tuple[float, ...]
    largest: tuple[float, ...]


class TwoTower(nn.Module):  # type: ignore[misc]  # PyTorch is not typed here
    """logit = <user, item> + both biases; a tower sums the rows of its features.

    `clipped`: with the max_norm of nn.EmbeddingBag, at the length of a row at its bound.
    """

    def __init__(self, ratings: Ratings, sparse: bool, clipped: bool = False):
        super().__init__()

        def table(rows: int, width: int, **options: int) -> nn.EmbeddingBag:
            longest = (K * rho0(width) * width) ** 0.5 if clipped else None
            return nn.EmbeddingBag(
                rows, width, mode="sum", sparse=sparse, max_norm=longest, **options
            )

        self.user = table(ratings.users, WIDTH)
        self.item = table(ratings.items, WIDTH, padding_idx=0)
        self.user_bias = table(ratings.users, 1)
        self.item_bias = table(ratings.items, 1, padding_idx=0)
        for vectors in (self.user, self.item):
            nn.init.normal_(vectors.weight, std=0.15)
        for biases in (self.user_bias, self.item_bias):
            nn.init.zeros_(biases.weight)

    def forward(self, user: Tensor, item: Tensor) -> Tensor:
        """The logits of some events."""
        together = (self.user(user) * self.item(item)).sum(1)
        return together + (self.user_bias(user) + self.item_bias(item)).squeeze(1)


def read_ratings(path: Path) -> Ratings:
    """From the file that `holdfast data fetch movielens-100k` writes."""
    table = pq.read_table(path).to_pandas()
    ages = np.digitize(table["age"].fillna(0), AGES)
    codes = [table[name].astype("category").cat.codes.to_numpy(np.int64) + 1
             for name in ("user", "gender", "occupation")]  # fmt: skip
    user, users = _side_by_side([ages, *codes])
    names = sorted({genre for genres in table["genres"] for genre in genres})
    number = {genre: 1 + n for n, genre in enumerate(names)}
    item = np.zeros((len(table), 1 + GENRES), np.int64)
    item[:, 0] = table["movie"].astype("category").cat.codes.to_numpy(np.int64) + 1 + len(names)
    for row, genres in zip(item, table["genres"], strict=True):
        here = [number[genre] for genre in genres][:GENRES]
        row[1 : 1 + len(here)] = here
    clicks = (table["rating"] >= 4).to_numpy(np.float32)
    return Ratings(
        torch.from_numpy(user), users, torch.from_numpy(item), int(item.max()) + 1,
        torch.from_numpy(clicks),
    )  # fmt: skip


def _side_by_side(columns: list[np.ndarray]) -> tuple[np.ndarray, int]:
    """Columns of codes as rows of one table, and its size."""
    sizes = [int(column.max()) + 1 for column in columns]
    starts = np.cumsum([0, *sizes])
    shifted = [column + start for column, start in zip(columns, starts[:-1], strict=True)]
    return np.stack(shifted, 1).astype(np.int64), int(starts[-1])


def train(
    ratings: Ratings, trial: TowerTrial, epochs: int = EPOCHS, **constants: float
) -> TowerResult:
    """Train until the end, or until an entry reaches tau. `constants` are those of the rule."""
    torch.manual_seed(trial.seed)
    draw = np.random.default_rng(trial.seed)
    order = draw.permutation(len(ratings.click))
    cut = int(TEST_SHARE * len(order))
    test, rest = torch.from_numpy(order[:cut]), order[cut:]
    share = ratings.click[torch.from_numpy(rest)].mean()
    constant = float(log_loss(share.logit().expand(cut), ratings.click[test]))
    model, optimizer = _made(ratings, trial, constants)
    losses: list[float] = []
    largest: list[float] = []
    for _ in range(epochs):
        for batch in _batches(draw.permutation(rest)):
            optimizer.zero_grad()
            log_loss(
                model(ratings.user[batch], ratings.item[batch]), ratings.click[batch]
            ).backward()
            optimizer.step()
            largest.append(_largest(model))
            if diverged(model, TAU):
                return TowerResult(constant, len(largest), tuple(losses), tuple(largest))
        with torch.no_grad():
            logits = model(ratings.user[test], ratings.item[test])
            losses.append(float(log_loss(logits, ratings.click[test])))
    return TowerResult(constant, None, tuple(losses), tuple(largest))


def _made(
    ratings: Ratings, trial: TowerTrial, constants: dict[str, float]
) -> tuple[TwoTower, torch.optim.Optimizer]:
    """The model and its optimizer, with the rule attached: the lines that a user adds."""
    model = TwoTower(ratings, trial.optimizer != "Adam", clipped=trial.rule == "max_norm")
    optimizer = getattr(torch.optim, trial.optimizer)(model.parameters(), lr=trial.step_size)
    if trial.rule not in ("none", "max_norm"):
        bounds = DualAscent(model, rule=trial.rule, k=K, **constants)
        bounds.attach(optimizer)
    return model, optimizer


def _batches(order: np.ndarray) -> Iterator[Tensor]:
    for start in range(0, len(order), BATCH):
        yield torch.from_numpy(order[start : start + BATCH])


def _largest(model: TwoTower) -> float:
    """The largest |entry| of all tables."""
    return max(float(weight.detach().abs().max()) for weight in model.parameters())
