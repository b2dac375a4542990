"""Two towers of embeddings in PyTorch: the logit is the product of user and ad, plus biases.

Tables have a fixed number of rows, and a value's row is its hash. Gradients are sparse, so that the
time of a batch does not depend on the size of the tables. An arm's rule holds the rows of both
towers by `divergence.torch`.
"""

import warnings
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from divergence.rules import RULES, Rule
from trainer.features import FeatureSpec
from trainer.states.hashing import HashedEvents, HashedRows, hashed_events
from trainer.states.own import State

TABLES = ("user", "ad", "user_bias", "ad_bias", "bias")
SCORED = 8192
"""Events that are scored at a time."""
MEANINGLESS = ("rho", "implicit", "penalty_in_sum")
"""What `divergence.torch` takes under another name, or not at all."""


class TorchEmbeddings:
    """Trained in batches by one of PyTorch's optimizers."""

    parameters: ClassVar[dict[str, Any]] = {"step": (0.003, 3.0)}
    watched: ClassVar[tuple[str, ...]] = ("user", "ad")
    rules: ClassVar[tuple[str, ...]] = ("none", "entropic", "euclidean", "holdfast")
    multipliers: ClassVar[tuple[str, ...]] = ("user.mu", "ad.mu")

    def __init__(
        self,
        spec: FeatureSpec,
        seed: int,
        dim: int = 8,
        rows: int = 1 << 14,
        batch: int = 64,
        optimizer: Literal["adagrad", "sgd"] = "adagrad",
        init_std: float = 0.15,
    ) -> None:
        import torch  # an optional extra, and slow to load

        torch.set_num_threads(1)
        torch.sparse.check_sparse_tensor_invariants.disable()  # else the first step warns
        self.spec, self.seed, self.width = spec, seed, dim
        self.rows, self.batch, self.optimizer, self.init_std = rows, batch, optimizer, init_std

    def compile(self, events: pa.Table) -> HashedEvents:
        """Each value as the row of its hash."""
        return hashed_events(events, self.spec, self.rows)

    def start(self) -> State:
        """Normal entries in the towers, and zeros elsewhere."""
        rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence((self.seed,))))
        towers = rng.standard_normal((2, self.rows, self.width), np.float32) * self.init_std
        state: State = {"user": towers[0].astype("f4"), "ad": towers[1].astype("f4")}
        state |= {name: np.zeros((self.rows, 1), "f4") for name in ("user_bias", "ad_bias")}
        state["bias"] = np.zeros((1, 1), "f4")
        if self.optimizer == "adagrad":
            state |= {f"{name}.sum": np.zeros_like(state[name]) for name in TABLES}
        return state | {name: np.zeros(self.rows, "f4") for name in self.multipliers}

    def train(
        self, chunk: HashedEvents, state: State, setting: Mapping[str, float], rule: Rule
    ) -> Iterator[NDArray[Any]]:
        """Batch after batch; tables, sums and multipliers stay in the arrays of the state."""
        import torch

        tables = {name: torch.nn.Parameter(torch.from_numpy(state[name])) for name in TABLES}
        optimizer = self._optimizer(torch, tables, state, setting["step"])
        bounds = _bounds(torch, rule, tables, state)
        if bounds is not None:
            bounds.attach(optimizer)
        click = torch.from_numpy(chunk.click.astype("f4"))
        for first in range(0, len(click), self.batch):
            last = min(first + self.batch, len(click))
            logits = _logits(torch, chunk, tables, first, last)
            loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, click[first:last])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            yield logits.detach().numpy()
        if bounds is not None:
            for name, mu in zip(self.multipliers, bounds.multipliers.values(), strict=True):
                state[name][:] = mu.numpy()

    def logits(self, chunk: HashedEvents, state: State) -> NDArray[Any]:
        """The logit of every event."""
        import torch

        tables = {name: torch.from_numpy(np.array(state[name])) for name in TABLES}
        ends = [*range(0, len(chunk.click), SCORED), len(chunk.click)]
        with torch.no_grad():
            parts = [_logits(torch, chunk, tables, *span) for span in pairwise(ends)]
        return np.concatenate([part.numpy() for part in parts])

    def _optimizer(self, torch: Any, tables: dict[str, Any], state: State, step: float) -> Any:
        if self.optimizer == "sgd":
            return torch.optim.SGD(tables.values(), lr=step)
        optimizer = torch.optim.Adagrad(tables.values(), lr=step)
        for name, table in tables.items():
            optimizer.state[table]["sum"] = torch.from_numpy(state[f"{name}.sum"])
        return optimizer


def _logits(torch: Any, chunk: HashedEvents, tables: dict[str, Any], first: int, last: int) -> Any:
    """The logits of some events."""

    def of(side: HashedRows, name: str) -> Any:
        start = side.start[first : last + 1]
        rows, weight = (part[start[0] : start[-1]].copy() for part in (side.row, side.weight))
        return torch.nn.functional.embedding_bag(
            torch.from_numpy(rows),
            tables[name],
            torch.from_numpy(start[:-1] - start[0]),
            mode="sum",
            sparse=tables[name].requires_grad,
            per_sample_weights=torch.from_numpy(weight),
        )

    product = (of(chunk.users, "user") * of(chunk.ads, "ad")).sum(1)
    biases = of(chunk.users, "user_bias") + of(chunk.ads, "ad_bias") + tables["bias"]
    return product + biases[:, 0]


def _bounds(torch: Any, rule: Rule, tables: dict[str, Any], state: State) -> Any:
    """The rule beside the optimizer, with the multipliers of the state; None for the rule none."""
    name = next(name for name, kind in RULES.items() if isinstance(rule, kind))
    if name == "none":
        return None
    from divergence.torch import DualAscent

    towers = []
    for table in (tables["user"], tables["ad"]):
        tower = torch.nn.EmbeddingBag(1, 1)
        tower.weight = table
        towers.append(tower)
    constants = {k: v for k, v in rule._asdict().items() if k not in MEANINGLESS}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that rows begin above the bound is the config's decision
        bounds = DualAscent(towers, name, rho=rule.rho, **constants)
    given = {name: torch.from_numpy(state[f"{table}.mu"])
             for name, table in zip(bounds.multipliers, ("user", "ad"), strict=True)}  # fmt: skip
    bounds.load_state_dict({"mu": given})
    return bounds
