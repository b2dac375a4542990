"""A factorization machine in PyTorch: two `nn.EmbeddingBag`s, dense gradients, `optim.Adagrad`.

The model is Rendle's: bias, weights of values, and all pairs of values by their factors.
Mini-batches in event order, one step each, with the mean loss of
`binary_cross_entropy_with_logits`. Dense Adagrad goes through the whole table at every step,
as it does by default.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from scripts.bench.fields.learner import Chances, FieldChunk, Learner, Opening

FACTORS = 10
SPREAD = 0.1
"""The standard deviation of first factors; River's."""


class TorchChunk(NamedTuple):
    """A chunk as tensors: the slots of event i begin at start[i]."""

    click: Tensor
    start: Tensor
    value: Tensor
    weight: Tensor

    def part(self, first: int, last: int) -> "TorchChunk":
        """The events from first to last."""
        begin, end = int(self.start[first]), int(self.start[last])
        inner = slice(begin, end)
        start = self.start[first : last + 1] - begin
        return TorchChunk(self.click[first:last], start, self.value[inner], self.weight[inner])


class FactorizationMachine(nn.Module):  # type: ignore[misc]  # PyTorch is not typed here
    """Logits of events."""

    def __init__(self, values: int, seed: int) -> None:
        super().__init__()
        options = {"mode": "sum", "include_last_offset": True}
        self.bias = nn.Parameter(torch.zeros(()))
        self.weights = nn.EmbeddingBag(values, 1, **options)
        self.factors = nn.EmbeddingBag(values, FACTORS, **options)
        nn.init.zeros_(self.weights.weight)
        noise = torch.Generator().manual_seed(seed)
        nn.init.normal_(self.factors.weight, std=SPREAD, generator=noise)

    def forward(self, events: TorchChunk) -> Tensor:
        """Linear in the number of values, by Rendle's identity."""
        weights = self.weights(events.value, events.start, events.weight)[:, 0]
        total = self.factors(events.value, events.start, events.weight)
        squares = nn.functional.embedding_bag(
            events.value,
            self.factors.weight**2,
            events.start,
            mode="sum",
            per_sample_weights=events.weight**2,
            include_last_offset=True,
        )
        return self.bias + weights + 0.5 * (total**2 - squares).sum(1)


def torch_fm(opening: Opening) -> Learner:
    """A learner that has seen nothing."""
    torch.set_num_threads(1)
    return TorchFM(opening)


class TorchFM(Learner):
    """The model and its optimizer."""

    def __init__(self, opening: Opening) -> None:
        self._model = FactorizationMachine(opening.fields.values, opening.seed)
        self._adagrad = torch.optim.Adagrad(self._model.parameters(), lr=opening.number("lr"))
        self._batch = int(opening.number("batch"))
        self._trained = False

    def encode(self, chunk: FieldChunk) -> TorchChunk:
        """Tensors of the same numbers."""
        events = chunk.events
        arrays = (events.start, events.value.astype(np.int64), events.weight)
        click = torch.from_numpy(events.click.astype(np.float32))
        return TorchChunk(click, *(torch.from_numpy(array.copy()) for array in arrays))

    def predict(self, encoded: TorchChunk) -> Chances | None:
        """The chance of a click of each event."""
        if not self._trained:
            return None
        with torch.no_grad():
            return np.asarray(torch.sigmoid(self._model(encoded).double()).numpy())

    def train(self, encoded: TorchChunk) -> int:
        """One step for each mini-batch, in event order."""
        events = len(encoded.click)
        for first in range(0, events, self._batch):
            batch = encoded.part(first, min(first + self._batch, events))
            loss = nn.functional.binary_cross_entropy_with_logits(self._model(batch), batch.click)
            self._adagrad.zero_grad()
            loss.backward()
            self._adagrad.step()
        self._trained = True
        return events
