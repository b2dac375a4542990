"""Rows that lines share are those that each line would have alone."""

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.geometry import PARTS
from trainer.shared_rows import LineRows, RowsOfLines

WIDTH = 8
VALUES = np.array([0.0, -0.0, 1.0, np.nan], np.float32)


def some_rows(count: int, rng: np.random.Generator) -> LineRows:
    rows = rng.choice(VALUES, (count, 1, 1)) * np.ones((1, PARTS, WIDTH), np.float32)
    return LineRows(rows.astype(np.float32), rng.choice(VALUES, count))


def same_bits(one: LineRows, other: LineRows) -> bool:
    return all(a.tobytes() == b.tobytes() for a, b in zip(one, other, strict=True))


class Plain:
    """Each line has all its rows."""

    def __init__(self, base: LineRows) -> None:
        self.count, self.lines = len(base.mu), {0: base}

    def grow(self, count: int) -> None:
        self.count += count
        for line, (rows, mu) in self.lines.items():
            more = np.zeros((count, PARTS, WIDTH), np.float32)
            self.lines[line] = LineRows(np.append(rows, more, axis=0), np.append(mu, more[:, 0, 0]))


def copied(rows: LineRows) -> LineRows:
    return LineRows(rows.rows.copy(), rows.mu.copy())


def train_both(shared: RowsOfLines, plain: Plain, new: int, rng: np.random.Generator) -> None:
    """All lines change the same rows, some of them new, each in its own way."""
    old = rng.choice(plain.count, rng.integers(0, plain.count + 1), replace=False)
    at = np.append(old, np.arange(plain.count, plain.count + new)).astype(np.int64)
    plain.grow(new)
    slots = shared.slots_of(at)
    for line, whole in plain.lines.items():
        own = shared.of(line)
        assert same_bits(
            LineRows(own.rows[slots[: len(old)]], own.mu[slots[: len(old)]]),
            LineRows(whole.rows[old], whole.mu[old]),
        )
        trained = some_rows(len(at), rng)
        own.rows[slots], own.mu[slots] = trained
        whole.rows[at], whole.mu[at] = trained


@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(0, 12), st.integers(0, 2**32 - 1))
def test_lines_with_shared_rows_have_the_bits_of_lines_with_their_own(
    data: Any, size: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    base = some_rows(size, rng)
    shared, plain = RowsOfLines(WIDTH, copied(base)), Plain(base)
    shared.add(0)
    for _ in range(data.draw(st.integers(1, 8))):
        line, parent = data.draw(st.integers(0, 4)), data.draw(st.sampled_from([*plain.lines]))
        what = data.draw(st.sampled_from(["copy", "move", "put", "train", "drop"]))
        if what == "copy":
            shared.copy(line, parent)
            plain.lines[line] = copied(plain.lines[parent])
        elif what == "move":
            shared.put(line, shared.all_of(parent, plain.count))
            plain.lines[line] = copied(plain.lines[parent])
        elif what == "put":
            rows = some_rows(plain.count, rng)
            for array in rows:
                array.setflags(write=False)  # as they come out of Ray's store
            shared.put(line, rows)
            plain.lines[line] = copied(rows)
        elif what == "train":
            train_both(shared, plain, data.draw(st.integers(0, 3)), rng)
        else:
            shared.keep_only({parent})
            plain.lines = {parent: plain.lines[parent]}
        for each, whole in plain.lines.items():
            assert same_bits(shared.all_of(each, plain.count), whole)


def test_a_line_has_only_the_rows_that_were_changed() -> None:
    rng = np.random.default_rng(101)
    base = some_rows(200_000, rng)
    shared = RowsOfLines(WIDTH, base)
    shared.add(0)
    for line in range(1, 8):
        shared.copy(line, 0)
    shared.slots_of(np.arange(7, 100))
    shared.put(8, shared.all_of(3, 200_000))
    assert {len(shared.of(line).mu) for line in range(9)} == {1024}
