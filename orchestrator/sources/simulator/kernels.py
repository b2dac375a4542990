"""The compiled part: every number is a hash of what it belongs to, so nothing is remembered.

All chance is `roll(key, stream, index)`, a counter-based generator, so that any value at any time
can be had without those before it. Three shapes of time are built on it, each in O(1):
`renewal` (one thing follows on another), `away` (gone for a while), `drifting` (slow change).

One module on purpose: numba's disk cache does not notice edits of helpers in other files.
"""

import math
from collections.abc import Callable
from typing import TypeVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

from orchestrator.sources.simulator.state import (
    Ads,
    Campaigns,
    Floats,
    Hidden,
    Ints,
    People,
    Quality,
    Tastes,
    Turnover,
    Visits,
)

F = TypeVar("F", bound=Callable[..., object])

U64 = np.uint64
GOLDEN = U64(0x9E3779B97F4A7C15)
SILVER = U64(0xD1B54A32D192ED03)  # another odd number without a pattern
HOUR_US = 3_600_000_000
THURSDAY_H = 72  # 1970 began on a Thursday, 72 hours after a Monday
FORGET_H = 720.0  # clicks older than 30 days are forgotten (the paper's section 1 on GDPR)
JITTER = 0.8  # lifetimes lie within +-80% of their period
MAX_TOPICS = 4
TABLET_SHARE = 0.06

# Streams: what a roll is for.
PHASE, BIRTH, BEGIN, LENGTH, FIXED, KNOT, SHOCK, HIT, JUMP = range(9)
TRAITS, DEVICE, INTEREST, TOPIC, WEIGHT, LAST_CLICK = range(10, 16)
PLACE, IDENTITY, ADVERTISER, CATEGORY, RANK, BID, PAUSE, FLAG, BUDGET, CREATIVE, QUALITY = range(
    20, 31
)
VISITOR, SERVED, CLICK, WHIM, CLIQUE = range(40, 45)


def jit(function: F) -> F:
    """Compile on first call: IEEE arithmetic, a disk cache, the GIL released."""
    compiled: F = njit(cache=True, nogil=True, error_model="numpy")(function)
    return compiled


@jit
def mix(x: np.uint64) -> np.uint64:
    """The finaliser of splitmix64."""
    x = (x ^ (x >> U64(30))) * U64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> U64(27))) * U64(0x94D049BB133111EB)
    return x ^ (x >> U64(31))


@jit
def roll(key: np.uint64, stream: int, index: int) -> np.uint64:
    """64 random bits that belong to (key, stream, index) alone, where the key is itself rolled."""
    return mix(key + GOLDEN * U64(index) + SILVER * U64(stream + 1))


@jit
def uniform(bits: np.uint64) -> float:
    """In [0, 1), from the upper 53 bits."""
    return float(bits >> U64(11)) * 2.0**-53


@jit
def normal(bits: np.uint64) -> float:
    """Mean 0, variance 1, within 3.5: the sum of four 16-bit uniforms. No libm, so exact."""
    low = (bits & U64(0xFFFF)) + ((bits >> U64(16)) & U64(0xFFFF))
    high = ((bits >> U64(32)) & U64(0xFFFF)) + (bits >> U64(48))
    return (float(low + high) - 131070.0) * (math.sqrt(3.0) / 65536.0)


@jit
def renewal(key: np.uint64, now_h: float, period_h: float) -> tuple[int, float]:
    """(number, birth in hours) of what lives now, where lives follow each other on a jittered grid.

    Lives last `period_h` on average, and (1 +- JITTER) times that at the extremes.
    """
    phase = uniform(roll(key, PHASE, 0))
    x = now_h / period_h + phase
    number = math.floor(x)
    birth = number + JITTER * uniform(roll(key, BIRTH, number))
    if x < birth:
        number -= 1
        birth = number + JITTER * uniform(roll(key, BIRTH, number))
    return number, (birth - phase) * period_h


@jit
def away(key: np.uint64, now_h: float, per_day: float, hours: float) -> bool:
    """Whether it is gone now, being gone `per_day` times a day for 0.5 to 1.5 times `hours`."""
    if per_day == 0.0:
        return False
    x = now_h * per_day / 24.0 + uniform(roll(key, PHASE, 0))
    number = math.floor(x)
    length = hours * per_day / 24.0 * (0.5 + uniform(roll(key, LENGTH, number)))
    begin = uniform(roll(key, BEGIN, number)) * (1.0 - length)
    return begin <= x - number < begin + length


@jit
def drifting(key: np.uint64, column: int, now_h: float, period_h: float, share: float) -> float:
    """Mean 0, variance 1 at all times; `share` of the variance is renewed every `period_h`."""
    x = now_h / period_h + uniform(roll(key, PHASE, 0))
    knot = math.floor(x)
    turn = 0.5 * math.pi * (x - knot)
    here = normal(roll(roll(key, KNOT, knot), KNOT, column))
    there = normal(roll(roll(key, KNOT, knot + 1), KNOT, column))
    moving = math.cos(turn) * here + math.sin(turn) * there
    return math.sqrt(1.0 - share) * normal(roll(key, FIXED, column)) + math.sqrt(share) * moving


@jit
def drifting_rows(
    key: np.uint64, shape: tuple[int, int], now_h: float, period_h: float, share: float
) -> Floats:
    """A table of drifting numbers; each row drifts in its own phase."""
    table = np.empty(shape)
    for row in range(shape[0]):
        row_key = roll(key, FIXED, row)
        for column in range(shape[1]):
            table[row, column] = drifting(row_key, column, now_h, period_h, share)
    return table


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
def traits(
    seed: np.uint64, users: int, geos: int
) -> tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.uint16]]:
    """(age, gender, geo) of every user: ages in a hump, one gender in ten unknown, skewed geos."""
    age, gender = np.empty(users, np.uint8), np.empty(users, np.uint8)
    geo = np.empty(users, np.uint16)
    for user in range(users):
        key = roll(seed, TRAITS, user)
        age[user] = int(3.5 * (uniform(roll(key, TRAITS, 0)) + uniform(roll(key, TRAITS, 1))))
        gender[user] = min(int(uniform(roll(key, TRAITS, 2)) / 0.45), 2)
        geo[user] = int(geos * uniform(roll(key, TRAITS, 3)) ** 2)
    return age, gender, geo


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
        popularity_rank = 1.0 + uniform(roll(identity, RANK, 0)) * (n - 1)
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
def alias_table(weight: Floats, live: NDArray[np.bool_]) -> tuple[Floats, NDArray[np.int64]]:
    """Vose's table of the live campaigns: drawing one takes one roll. Needs a live one."""
    n = len(weight)
    keep, other = np.where(live, weight, 0.0), np.arange(n)
    keep *= n / keep.sum()
    small, large = np.empty(n, np.int64), np.empty(n, np.int64)
    smalls, larges = 0, 0
    for i in range(n):
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
    for i in range(smalls):  # rounding leaves a few that are all but 1; the dead stay dead
        keep[small[i]] = 1.0 if live[small[i]] else 0.0
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
def arrive(
    key: np.uint64, n: int, users: int, power: float, span_us: tuple[int, int]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(user, time) of n visits within [start, end), in time order; low users come often."""
    user, time_us = np.empty(n, np.int64), np.empty(n, np.int64)
    start, end = span_us
    for i in range(n):
        bits = roll(key, VISITOR, i)
        user[i] = int(users * uniform(bits) ** power)
        time_us[i] = start + int((i + uniform(mix(bits))) / n * (end - start))
    return user, time_us


@jit
def visit(
    seed: np.uint64, user: NDArray[np.int64], time_us: NDArray[np.int64], people: People
) -> Visits:
    """What is known of these users at these times."""
    n = len(user)
    visits = Visits(
        user,
        time_us,
        np.empty(n, np.int32),
        np.empty(n, np.int32),
        np.empty(n, np.int32),
        np.empty(n, np.int32),
        np.empty(n, np.int32),
        np.empty(n, np.int32),
        np.zeros(n + 1, np.int32),
        np.empty(n * MAX_TOPICS, np.int32),
        np.empty(n * MAX_TOPICS, np.float32),
    )
    end = 0
    for i in range(n):
        who, hours = user[i], time_us[i] // HOUR_US
        key, now_h = roll(seed, TRAITS, who), time_us[i] / HOUR_US
        visits.age[i] = people.age[who]
        visits.gender[i] = people.gender[who]
        visits.geo[i] = people.geo[who]
        u = uniform(roll(key, DEVICE, hours))
        desktop = people.desktop_share[(hours + THURSDAY_H) % 168]
        visits.device[i] = 1 if u < desktop else (2 if u >= 1.0 - TABLET_SHARE else 0)
        visits.hour[i] = hours % 24
        end = add_topics(key, now_h, people, visits, end)
        favourite = visits.topic[visits.topic_offset[i]]
        per_day = people.clicks_per_day * people.activity[who]
        visits.last_category[i] = last_category(key, now_h, 24.0 / per_day, favourite, people)
        visits.topic_offset[i + 1] = end
    return visits


@jit
def add_topics(key: np.uint64, now_h: float, people: People, visits: Visits, end: int) -> int:
    """Write one to four distinct interests from `end` on; the new end."""
    first = end
    for slot in range(1 + int(MAX_TOPICS * uniform(roll(key, INTEREST, MAX_TOPICS)))):
        slot_key = roll(key, INTEREST, slot)
        number, _ = renewal(slot_key, now_h, people.topic_lifetime_h)
        topic = int(people.topics * uniform(roll(slot_key, TOPIC, number)) ** 2)
        k = first
        while k < end:  # one who has it already takes up the next one
            if visits.topic[k] == topic:
                topic, k = (topic + 1) % people.topics, first
            else:
                k += 1
        visits.topic[end] = topic
        visits.topic_weight[end] = 0.25 + 0.75 * uniform(roll(slot_key, WEIGHT, number))
        end += 1
    return end


@jit
def last_category(
    key: np.uint64, now_h: float, click_period_h: float, favourite: int, people: People
) -> int:
    """The category this user clicked last; often that of a favourite topic.

    Drawn from the user's tastes and pace, not replayed from the clicks of the log: a replay would
    need the whole past.
    """
    number, clicked_h = renewal(roll(key, LAST_CLICK, 0), now_h, click_period_h)
    if now_h - clicked_h > FORGET_H:
        return people.categories
    bits = roll(key, LAST_CLICK, number)
    if uniform(bits) < 0.6:
        return favourite % people.categories
    return int(people.categories * uniform(mix(bits)))


@jit
def describe_ads(
    ads: NDArray[np.int64],
    now_h: float,
    campaigns: Campaigns,
    exposure: Floats,
    category: Floats,
    quality: Quality,
) -> Ads:
    """Ads as the truth sees them, features summed and scaled to variance 1.

    exposure: (campaigns,); category: (categories, rank + 1), the last column in logits.
    """
    n, rank = len(ads), category.shape[1] - 1
    described = Ads(np.ones((n, rank + 1)), np.empty(n), np.empty(n, np.int32), np.empty(n))
    for i in range(n):
        place = ads[i] // quality.creatives
        of_campaign = campaigns.identity[place]
        of_creative = roll(of_campaign, CREATIVE, ads[i] % quality.creatives)
        of_advertiser = roll(quality.seed, ADVERTISER, campaigns.advertiser[place])
        c = campaigns.category[place]
        for k in range(rank):
            described.vector[i, k] = 0.5 * (
                category[c, k]
                + normal(roll(of_advertiser, FIXED, k))
                + normal(roll(of_campaign, FIXED, k))
                + normal(roll(of_creative, FIXED, k))
            )
        described.logit[i] = category[c, rank] + 0.5 * quality.sd * (
            normal(roll(of_advertiser, QUALITY, 0))
            + normal(roll(of_campaign, QUALITY, 0))
            + drifting(of_creative, rank, now_h, quality.drift_h, quality.drift_share)
        )
        described.category[i] = c
        described.exposure[i] = exposure[place]
    return described


@jit
def click_logits(
    visits: Visits, ads: Ads, ad: NDArray[np.int64], tastes: Tastes, hidden: Hidden, activity: Floats
) -> Floats:
    """Log-odds of a click, but for the market's constant; ad[i]: the row of visit i's ad."""
    n, width = len(ad), ads.vector.shape[1]
    logits = np.empty(n)
    for i in range(n):
        a = ad[i]
        age_gender = tastes.age_gender[visits.age[i] * 3 + visits.gender[i]]
        device_hour = tastes.device_hour[visits.device[i] * 24 + visits.hour[i]]
        geo = tastes.geo[visits.geo[i]]
        last = tastes.last_category[visits.last_category[i]]
        first, end = visits.topic_offset[i], visits.topic_offset[i + 1]
        scale = 1.0 / visits.topic_weight[first:end].sum()
        dot = ads.logit[a]
        for k in range(width):
            topics = 0.0
            for j in range(first, end):
                topics += visits.topic_weight[j] * tastes.topic[visits.topic[j], k]
            taste = age_gender[k] + device_hour[k] + geo[k] + last[k] + scale * topics
            dot += taste * ads.vector[a, k]
        whim = roll(roll(hidden.seed, WHIM, visits.user[i]), WHIM, ads.category[a])
        who = (visits.age[i] * 65536 + visits.geo[i]) * 3 + visits.device[i]
        clique = roll(roll(hidden.seed, CLIQUE, who), CLIQUE, ads.category[a])
        seen = activity[visits.user[i]] * ads.exposure[a]
        surprise = hidden.hidden_sd * math.sqrt(0.5) * (normal(whim) + normal(clique))
        logits[i] = dot + surprise - hidden.fatigue * math.log1p(seen)
    return logits


@jit
def click(key: np.uint64, probability: Floats) -> NDArray[np.uint8]:
    """1 where the user clicks."""
    clicks = np.empty(len(probability), np.uint8)
    for i in range(len(probability)):
        clicks[i] = uniform(roll(key, CLICK, i)) < probability[i]
    return clicks


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
