"""Which campaigns exist, which of them are live, and which ads the log shows."""

import math

import numpy as np
from numpy.typing import NDArray

from divergence.jit import jit
from orchestrator.sources.simulator.chance import (
    ADVERTISER,
    BEGIN,
    BID,
    BUDGET,
    CATEGORY,
    FLAG,
    HIT,
    IDENTITY,
    JUMP,
    LENGTH,
    PAUSE,
    PLACE,
    POPULARITY,
    SERVED,
    SHOCK,
    away,
    mix,
    normal,
    renewal,
    roll,
    uniform,
)
from orchestrator.sources.simulator.state import Campaigns, Floats, Ints, Turnover


@jit
def shock_logits(
    seed: np.uint64, now_h: float, per_day: float, hours: float, shape: tuple[int, float, float]
) -> Floats:
    """What the shocks now do to each category's logit; shape: (categories, reach, size)."""
    categories, reach, size = shape
    logits = np.zeros(categories)
    if per_day == 0.0:
        return logits
    first = math.floor((now_h - 1.5 * hours) * per_day / 24.0)
    for number in range(first, math.floor(now_h * per_day / 24.0) + 1):
        key = roll(seed, SHOCK, number)
        elapsed_h = now_h - (number + uniform(roll(key, BEGIN, 0))) * 24.0 / per_day
        length_h = hours * (0.5 + uniform(roll(key, LENGTH, 0)))
        if 0.0 <= elapsed_h < length_h:
            for category in range(categories):
                if uniform(roll(key, HIT, category)) < reach:
                    jump = 2.0 * uniform(roll(key, JUMP, category)) - 1.0
                    signed = jump + math.copysign(0.5, jump)
                    logits[category] += size * signed * (1.0 - elapsed_h / length_h)
    return logits


@jit
def settle(seed: np.uint64, now_h: float, turnover: Turnover, demand: Floats) -> Campaigns:
    """The campaigns at `now_h`; demand: how much each category is wanted now, (categories,)."""
    n = turnover.campaigns
    campaigns = Campaigns(
        np.empty(n, np.uint64),
        np.empty(n, np.int64),
        np.empty(n, np.int32),
        np.empty(n, np.int32),
        np.empty(n),
        np.empty(n),
        np.empty(n),
        np.empty(n, np.bool_),
    )
    for place in range(n):
        key = roll(seed, PLACE, place)
        spread = turnover.lifetime_spread
        # The mean over campaigns born, not over places: E[1 / lifetime] is 1 / lifetime_h.
        lifetime_h = turnover.lifetime_h * math.exp(
            spread * normal(roll(key, LENGTH, 0)) + 0.5 * spread * spread
        )
        generation, birth_h = renewal(key, now_h, lifetime_h)
        identity = roll(key, IDENTITY, generation)
        advertiser = int(turnover.advertisers * uniform(roll(identity, ADVERTISER, 0)) ** 2)
        category = int(turnover.categories * uniform(roll(seed, CATEGORY, advertiser)))
        popularity_rank = 1.0 + uniform(roll(identity, POPULARITY, 0)) * (n - 1)
        campaigns.identity[place] = identity
        campaigns.generation[place] = generation
        campaigns.advertiser[place] = advertiser
        campaigns.category[place] = category
        campaigns.age_h[place] = now_h - birth_h
        campaigns.bid_usd[place] = turnover.bid_usd * math.exp(0.5 * normal(roll(identity, BID, 0)))
        campaigns.weight[place] = popularity_rank**-turnover.popularity_skew * demand[category]
        campaigns.live[place] = is_live(identity, now_h, turnover)
    return campaigns


@jit
def is_live(identity: np.uint64, now_h: float, turnover: Turnover) -> bool:
    """Neither paused nor flagged nor out of today's budget."""
    if away(roll(identity, PAUSE, 0), now_h, turnover.pauses_per_day, turnover.pause_h):
        return False
    if away(roll(identity, FLAG, 0), now_h, turnover.flags_per_day, turnover.flag_h):
        return False
    day = math.floor(now_h / 24.0)
    budget = roll(identity, BUDGET, day)
    if uniform(budget) >= turnover.depletion_share:
        return True
    # Spent late in the day rather than early: the later of two times.
    spent = max(uniform(roll(budget, BUDGET, 0)), uniform(roll(budget, BUDGET, 1)))
    return now_h / 24.0 - day < spent


@jit
def alias_table(weight: Floats) -> tuple[Floats, NDArray[np.int64]]:
    """Vose's table of these weights: drawing a place takes one roll. Needs a positive weight."""
    n, total = len(weight), 0.0
    for i in range(n):
        total += weight[i]
    keep, other = np.empty(n), np.arange(n)
    small, large = np.empty(n, np.int64), np.empty(n, np.int64)
    smalls, larges = 0, 0
    for i in range(n):
        keep[i] = weight[i] * n / total
        if keep[i] < 1.0:
            small[smalls] = i
            smalls += 1
        else:
            large[larges] = i
            larges += 1
    while smalls > 0 and larges > 0:
        smalls -= 1
        low, high = small[smalls], large[larges - 1]
        other[low] = high
        keep[high] -= 1.0 - keep[low]
        if keep[high] < 1.0:
            larges -= 1
            small[smalls] = high
            smalls += 1
    for i in range(larges):
        keep[large[i]] = 1.0
    for i in range(smalls):  # rounding leaves a few that are all but 1
        keep[small[i]] = 1.0
    return keep, other


@jit
def serve(
    key: np.uint64,
    n: int,
    table: tuple[Floats, NDArray[np.int64]],
    creative_share: Floats,
) -> NDArray[np.int64]:
    """Ads for n events: campaigns by popularity, creatives by their (cumulative) shares."""
    keep, other = table
    places, creatives = len(keep), len(creative_share)
    ads = np.empty(n, np.int64)
    for i in range(n):
        bits = roll(key, SERVED, i)
        x = uniform(bits) * places
        place = int(x)
        if x - place >= keep[place]:
            place = other[place]
        u, creative = uniform(mix(bits)), 0
        while creative < creatives - 1 and u >= creative_share[creative]:
            creative += 1
        ads[i] = place * creatives + creative
    return ads


@jit
def first_seen(numbers: NDArray[np.int64], limit: int) -> tuple[NDArray[np.int64], Ints]:
    """(the distinct numbers in order of appearance, the row of each number among them)."""
    row_of = np.full(limit, -1, np.int32)
    distinct, rows = np.empty(len(numbers), np.int64), np.empty(len(numbers), np.int32)
    found = 0
    for i in range(len(numbers)):
        row = row_of[numbers[i]]
        if row < 0:
            row = row_of[numbers[i]] = found
            distinct[found] = numbers[i]
            found += 1
        rows[i] = row
    return distinct[:found].copy(), rows
