"""Drafts: once completed, they have the bits of a working set gathered after the cycle before."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from support.streams import CONFIGS, changed, some_chunk, trained
from trainer.draft import draft_of
from trainer.instance import Buffers
from trainer.model import Model


@given(
    seeds=st.lists(st.integers(0, 5), min_size=2, max_size=6),
    values=st.sampled_from([3, 40]),
    sums_kept=st.sampled_from([0.0, 0.7, 1.0]),
    expire_after=st.sampled_from([None, 1, 2]),
    multi=st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_a_completed_draft_has_the_bits_of_a_working_set(
    seeds: list[int], values: int, sums_kept: float, expire_after: int | None, multi: bool
) -> None:
    model = Model(CONFIGS[multi])
    *past, now, then = (some_chunk(20, seed=seed, values=values, multi=multi) for seed in seeds)
    options = {"mu0": 0.25, "sums_kept": sums_kept}
    for cycle, chunk in enumerate(past):
        trained(model, chunk, cycle, **options)
    cycle = len(past)

    before = model.gather(now, cycle, **options)
    draft = draft_of(model, now, then, cycle + 1, expire_after=expire_after, **options)
    won = changed(before, model)
    changes = model.scatter(now, cycle, before, won)
    if expire_after is not None:
        changes = changes.with_dropped(model.expire(cycle - expire_after))

    wanted = model.gather(then, cycle + 1, **options)
    completed = draft.completed(won, model.shape, Buffers())
    for has, wants in zip(completed, wanted.tables, strict=True):
        assert has.tobytes() == wants.tobytes()
    located = draft.located(changes)
    np.testing.assert_array_equal(located.user_rows, wanted.user_rows)
    np.testing.assert_array_equal(located.ad_rows, wanted.ad_rows)
