"""Several models, the lines of one arm, that see the same chunks: one index, rows for each line.

All lines see every chunk, so all have vectors for the same values. They are looked up, inserted and
expired once for all lines. The row numbers depend on the chunks alone: lines can be copied between
processes as plain arrays.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainer.chunk import Chunk, Keys
from trainer.geometry import PARTS, Shape
from trainer.instance import Buffers
from trainer.kernel import Tables
from trainer.key_index import KeyIndex
from trainer.model import Model, ModelConfig, Side, new_vectors
from trainer.rows import put_rows, take_rows, warm_up_rows
from trainer.score_lines import events_by_ad, served_loglosses
from trainer.shared_rows import LineRows, RowsOfLines

FLOAT = np.dtype(np.float32)


@dataclass(frozen=True, slots=True)
class LineOptions:
    """What the lines of an arm have in common."""

    model: Any
    """A `ModelConfig`; None for another trainer than OFFSET."""
    mu0: float
    sums_kept: float
    expire_after: int | None


@dataclass(frozen=True, slots=True)
class _Places:
    """Where one side's keys of a chunk are, which of them are new, and the vectors of those."""

    at: NDArray[np.int64]
    slots: NDArray[np.int64]
    """Where they are in the arrays of each line."""
    old: NDArray[np.int64]
    new: NDArray[np.int64]
    vectors: NDArray[np.float32]
    """The initial vectors of those that are new."""
    kept: NDArray[np.float32] | None
    """By what the AdaGrad sums of old rows are multiplied; None: by 1."""


class Lines:
    """The models of some of an arm's lines, by line number."""

    def __init__(self, options: LineOptions) -> None:
        """No lines, and nothing seen."""
        warm_up_rows()
        self.options = options
        self.model: ModelConfig = options.model
        self.shape: Shape = options.model.shape
        self.user, self.ad = KeyIndex(), KeyIndex()
        self.cycle = -1
        self._bias: dict[int, NDArray[np.float64]] = {}
        """Of each line."""
        self._users = RowsOfLines(self.shape.user_padded)
        self._ads = RowsOfLines(self.shape.ad_padded)

    def __contains__(self, line: int) -> bool:
        """Whether the line is here."""
        return line in self._bias

    def __len__(self) -> int:
        """How many lines are here."""
        return len(self._bias)

    # -- lines come and go ----------------------------------------------------------------------

    def add_new(self, line: int) -> None:
        """A line that has seen nothing; only before the first chunk."""
        if self.cycle >= 0:
            raise ValueError(f"line {line} cannot be new after cycle {self.cycle}")
        self._users.add(line)
        self._ads.add(line)
        self._bias[line] = np.zeros(2)

    def load(self, line: int, model: Model) -> None:
        """Add a line that was saved. It must have been saved with its row numbers.

        The first one is taken over, not copied: nobody else may use it afterwards.
        """
        if not self._bias:
            self.user, self.ad = _index_of(model.user), _index_of(model.ad)
            self.cycle = model.cycle
            self._users = RowsOfLines(self.shape.user_padded, _all_rows(model.user))
            self._ads = RowsOfLines(self.shape.ad_padded, _all_rows(model.ad))
            self._users.add(line)
            self._ads.add(line)
            self._bias[line] = model.bias.copy()
            return
        theirs = model.cycle, model.user.keys, model.ad.keys
        if theirs != (self.cycle, self.user.keys, self.ad.keys):
            raise ValueError(f"line {line} of cycle {model.cycle} does not fit the others")
        user, ad = _all_rows(model.user), _all_rows(model.ad)
        self.put(line, Tables(user.rows, ad.rows, user.mu, ad.mu, model.bias))

    def take_over(self, other: "Lines") -> None:
        """Add all lines of another set that has seen the same chunks, and is not used any more."""
        if not self._bias:
            vars(self).update(vars(other))
            return
        if (self.cycle, len(self.user.keys)) != (other.cycle, len(other.user.keys)):
            raise ValueError(f"lines of cycle {other.cycle} do not fit those of {self.cycle}")
        for line in sorted(other._bias):
            self.put(line, other.rows_of(line))

    def copy(self, line: int, parent: int) -> None:
        """Replace a line by a copy of another."""
        self._users.copy(line, parent)
        self._ads.copy(line, parent)
        self._bias[line] = self._bias[parent].copy()

    def rows_of(self, line: int) -> Tables:
        """A copy of a line's rows, by row number, for `put`, here or in another process."""
        user = self._users.all_of(line, len(self.user.keys))
        ad = self._ads.all_of(line, len(self.ad.keys))
        return Tables(user.rows, ad.rows, user.mu, ad.mu, self._bias[line].copy())

    def put(self, line: int, rows: Tables) -> None:
        """Add a line with these rows, which may be read-only and are copied, or replace it."""
        self._users.put(line, LineRows(rows.user, rows.user_mu))
        self._ads.put(line, LineRows(rows.ad, rows.ad_mu))
        self._bias[line] = rows.bias.copy()

    def keep_only(self, lines: Iterable[int]) -> None:
        """Drop all other lines."""
        wanted = set(lines)
        self._users.keep_only(wanted)
        self._ads.keep_only(wanted)
        self._bias = {line: bias for line, bias in self._bias.items() if line in wanted}

    def as_model(self, line: int) -> Model:
        """A line as a model, to be saved: it shares the index with this set."""
        model, rows = Model(self.model), self.rows_of(line)
        for side, index, vectors, mu in (
            (model.user, self.user, rows.user, rows.user_mu),
            (model.ad, self.ad, rows.ad, rows.ad_mu),
        ):
            side.keys, side.index, side.free = index.keys, index.index, index.free
            side.seen, side.updates, side.rows, side.mu = index.seen, index.updates, vectors, mu
        model.bias, model.cycle = rows.bias, self.cycle
        return model

    # -- a chunk --------------------------------------------------------------------------------

    def see(
        self,
        chunk: Chunk,
        cycle: int,
        work: Callable[[int, Tables], bool],
        buffers: Buffers,
        *,
        score: bool = False,
        failed: Callable[[int, Exception], None] | None = None,
    ) -> dict[int, float]:
        """Give each line its working set of a chunk, in `buffers`, to be trained in place.

        `work` returns whether to keep what it made of it. Otherwise the line skips the chunk: it
        goes on with the rows from before. Returns each line's log-loss on the chunk before all
        this, if it is wanted. All lines can be scored, so that none is given to `failed`.
        """
        user = self._enter(self.user, self._users, chunk.user_keys, cycle, self.shape.user)
        ad = self._enter(self.ad, self._ads, chunk.ad_keys, cycle, self.shape.ad)
        kept = self.options.sums_kept ** (cycle - self.cycle) if self.cycle >= 0 else 1.0
        lines = sorted(self._bias)
        for line in lines:
            self._put_new(self._users.of(line), user)
            self._put_new(self._ads.of(line), ad)
        served: dict[int, float] = {}
        if score:
            models, by_ad = [self._own(line) for line in lines], events_by_ad(self.shape, chunk)
            at = user.slots, ad.slots
            found = served_loglosses(self.shape, chunk, by_ad, at, models, buffers)
            served = dict(zip(lines, found, strict=True))
        for line in lines:
            tables = self._gather(line, user, ad, kept, buffers)
            if not work(line, tables):
                tables = self._gather(line, user, ad, kept, buffers)
            self._scatter(line, user, ad, tables)
        for index, keys, places in (
            (self.user, chunk.user_keys, user),
            (self.ad, chunk.ad_keys, ad),
        ):
            index.updates[places.at[places.new]] = 0
            index.updates[places.at] += keys.count
            index.touch(places.at, cycle)
            if self.options.expire_after is not None:
                for key in index.unseen_since(cycle - self.options.expire_after):
                    index.remove(key)
        self.cycle = cycle
        return served

    def _enter(
        self, index: KeyIndex, shared: RowsOfLines, keys: Keys, cycle: int, length: int
    ) -> _Places:
        at = index.find(keys)
        old, new = np.flatnonzero(at >= 0), np.flatnonzero(at < 0)
        kept = None
        if self.options.sums_kept != 1.0:
            age = (cycle - index.seen[at[old]]).astype(np.float64)
            kept = (self.options.sums_kept**age).astype(np.float32)[:, None, None]
        at[new] = index.insert(keys.pairs[i] for i in new)
        vectors = new_vectors(self.model, keys, new, length)
        return _Places(at, shared.slots_of(at), old, new, vectors, kept)

    def _put_new(self, own: LineRows, side: _Places) -> None:
        """Give the keys that are new their first vectors."""
        at = side.slots[side.new]
        own.rows[at], own.mu[at] = 0.0, self.options.mu0
        own.rows[at, 0, : side.vectors.shape[1]] = side.vectors

    def _own(self, line: int) -> Tables:
        """A line's own rows, by slot."""
        user, ad = self._users.of(line), self._ads.of(line)
        return Tables(user.rows, ad.rows, user.mu, ad.mu, self._bias[line])

    def _gather(
        self, line: int, user: _Places, ad: _Places, kept: float, buffers: Buffers
    ) -> Tables:
        """The working set of a line, as `Model.gather` gives it."""
        rows = self._own(line)
        tables = Tables(
            self._gather_rows(rows.user, user, "user", self.shape.features, buffers),
            self._gather_rows(rows.ad, ad, "ad", 0, buffers),
            self._gather_mu(rows.user_mu, user, "user_mu", buffers),
            self._gather_mu(rows.ad_mu, ad, "ad_mu", buffers),
            rows.bias.copy(),
        )
        tables.bias[1] *= kept
        return tables

    def _gather_rows(
        self, rows: NDArray[np.float32], side: _Places, name: str, scratch: int, buffers: Buffers
    ) -> NDArray[np.float32]:
        n, size = len(side.at), rows.shape[1] * rows.shape[2]
        flat = buffers.take(name, (n + scratch) * size, FLOAT)
        take_rows(rows.reshape(-1), side.slots, size, flat)
        made = flat.reshape(n + scratch, PARTS, -1)
        made[n:] = 0.0
        if side.kept is not None:
            made[side.old, 1:] *= side.kept
        return flat

    def _gather_mu(
        self, mu: NDArray[np.float32], side: _Places, name: str, buffers: Buffers
    ) -> NDArray[np.float32]:
        out = buffers.take(name, len(side.at), FLOAT)
        return np.take(mu, side.slots, out=out, mode="clip")

    def _scatter(self, line: int, user: _Places, ad: _Places, trained: Tables) -> None:
        rows = self._own(line)
        put_rows(rows.user.reshape(-1), user.slots, PARTS * self.shape.user_padded, trained.user)
        put_rows(rows.ad.reshape(-1), ad.slots, PARTS * self.shape.ad_padded, trained.ad)
        rows.user_mu[user.slots], rows.ad_mu[ad.slots] = trained.user_mu, trained.ad_mu
        rows.bias[:] = trained.bias


def _index_of(side: Side) -> KeyIndex:
    """The index of a model's side, without the rows; not copied."""
    index = KeyIndex()
    for name in (*KeyIndex.COLUMNS, "keys", "index", "free", "rows_of_cycle", "listed"):
        setattr(index, name, getattr(side, name))
    return index


def _all_rows(side: Side) -> LineRows:
    return LineRows(side.rows[: len(side.keys)], side.mu[: len(side.keys)])
