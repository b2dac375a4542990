import numpy as np
import pytest

from orchestrator.ab.auction import candidates, hold, predicted
from orchestrator.ab.buckets import in_treatment

RNG = np.random.default_rng


def test_the_winner_pays_what_would_still_have_won() -> None:
    """Scores 0.04, 0.06, 0.02: the second wins, at 0.04 / 0.03 a click."""
    sold = hold(np.array([[0.02, 0.03, 0.01]]), np.array([[2.0, 2.0, 2.0]]), reserve_usd=0.05)
    assert sold.winner.tolist() == [1]
    assert sold.price_usd[0] == pytest.approx(0.04 / 0.03)


def test_prices_lie_between_reserve_and_bid_and_the_highest_score_wins() -> None:
    rng = RNG(1)
    pctr, bid = rng.uniform(0.001, 0.1, (500, 8)), rng.lognormal(-0.7, 0.5, (500, 8))
    sold = hold(pctr, bid, reserve_usd=0.1)
    rows = np.arange(500)
    own_bid, own_pctr = bid[rows, sold.winner], pctr[rows, sold.winner]
    assert np.all((sold.price_usd >= 0.1) & (sold.price_usd <= own_bid))
    assert np.array_equal(sold.winner, (pctr * np.where(bid >= 0.1, bid, 0)).argmax(axis=1))
    # With a hair less than the price as its bid, the winner would have lost.
    paid_by_rival = sold.price_usd > 0.1
    lowered = bid.copy()
    lowered[rows, sold.winner] = sold.price_usd * (1 - 1e-9)
    again = hold(pctr, lowered, reserve_usd=0.1)
    assert np.all(again.winner[paid_by_rival] != sold.winner[paid_by_rival])
    assert np.all(own_pctr > 0)


def test_a_lone_bidder_pays_the_reserve() -> None:
    sold = hold(np.array([[0.02]]), np.array([[2.0]]), reserve_usd=0.05)
    assert sold.price_usd.tolist() == [0.05]


def test_candidates_are_distinct_and_all_ads_get_their_share() -> None:
    ring, places = candidates(4000, 30, 7, RNG(3))
    assert sorted(ring) == list(range(30))
    drawn = ring[places]
    assert drawn.shape == (4000, 7)
    assert all(len(set(row)) == 7 for row in drawn[:200].tolist())
    share = np.bincount(drawn.ravel(), minlength=30) / 4000
    assert np.all(np.abs(share - 7 / 30) < 0.04)
    ring, places = candidates(3, 5, None, RNG(0))
    assert ring[places].tolist() == [[0, 1, 2, 3, 4]] * 3
    assert candidates(2, 5, 9, RNG(0))[1].shape == (2, 5)


def test_predicted_ctrs_are_those_of_the_shown_ads() -> None:
    users, ads = np.eye(2, 3, dtype=np.float32), np.arange(12, dtype=np.float32).reshape(4, 3)
    pctr = predicted(users, ads, -1.0, np.array([[3, 0], [1, 2]]))
    logits = np.log(pctr / (1 - pctr))
    assert logits == pytest.approx(np.array([[8.0, -1.0], [3.0, 6.0]]), rel=1e-5)


def test_a_user_stays_in_a_bucket_and_buckets_are_as_large_as_asked_for() -> None:
    users = np.arange(200_000)
    placed = in_treatment(users, "salt", 0.3)
    assert np.array_equal(placed, in_treatment(users, "salt", 0.3))
    assert placed.mean() == pytest.approx(0.3, abs=0.005)
    assert np.array_equal(placed[::-1], in_treatment(users[::-1].copy(), "salt", 0.3))
    # Neighbours are not alike, and another salt splits independently.
    assert np.mean(placed[1:] == placed[:-1]) == pytest.approx(0.58, abs=0.01)
    other = in_treatment(users, "other", 0.3)
    assert np.mean(placed & other) == pytest.approx(0.09, abs=0.005)
    # A larger share keeps whom it had.
    assert not np.any(placed & ~in_treatment(users, "salt", 0.5))
