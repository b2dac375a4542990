import math

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.search.selection import select
from support.records import outcome
from trainer.outcome import Outcome, Status

losses = st.floats(allow_nan=True, allow_infinity=True) | st.sampled_from([0.1, 0.2])
statuses = st.sampled_from([status.value for status in Status])
cycles = st.lists(st.tuples(statuses, losses), max_size=12).map(
    lambda pairs: [outcome(i, status, loss) for i, (status, loss) in enumerate(pairs)]
)


@given(cycles, st.randoms())
def test_the_order_of_outcomes_does_not_matter(outcomes: list[Outcome], random: object) -> None:
    shuffled = list(outcomes)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert select(shuffled) == select(outcomes)


@given(cycles)
def test_the_winner_is_retained_finite_and_best(outcomes: list[Outcome]) -> None:
    winner = select(outcomes)
    able = [o for o in outcomes if o.status == "retained" and math.isfinite(o.logloss)]
    if winner is None:
        assert not able
        return
    won = outcomes[winner]
    assert won in able
    assert all((won.logloss, won.instance) <= (o.logloss, o.instance) for o in able)


def test_ties_go_to_the_lower_number_and_nothing_gives_none() -> None:
    assert select([outcome(2), outcome(1), outcome(3, logloss=math.nan)]) == 1
    assert select([]) is None
