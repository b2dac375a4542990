"""Which users visit, when, and what is known about them."""

import numpy as np
from numpy.typing import NDArray

from divergence.jit import jit
from orchestrator.sources.simulator.chance import (
    DEVICE,
    INTEREST,
    LAST_CLICK,
    TOPIC,
    TRAITS,
    VISITOR,
    WEIGHT,
    mix,
    renewal,
    roll,
    uniform,
)
from orchestrator.sources.simulator.state import People, Visits

HOUR_US = 3_600_000_000
THURSDAY_H = 72  # 1970 began on a Thursday, 72 hours after a Monday
FORGET_H = 168.0  # what was clicked over a week ago no longer counts as last clicked
MAX_TOPICS = 4
TABLET_SHARE = 0.06


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
def arrive(
    key: np.uint64, n: int, users: int, power: float, span_us: tuple[int, int]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(user, time) of n visits within [start, end), in time order; low users come often."""
    user, time_us = np.empty(n, np.int64), np.empty(n, np.int64)
    start, length = span_us[0], span_us[1] - span_us[0]
    for i in range(n):
        bits = roll(key, VISITOR, i)
        user[i] = int(users * uniform(bits) ** power)
        time_us[i] = start + i * length // n + int(uniform(mix(bits)) * length / n)
    return user, time_us


@jit
def visit(
    seed: np.uint64, user: NDArray[np.int64], time_us: NDArray[np.int64], people: People
) -> Visits:
    """What is known about these users at these times."""
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
        while k < end:  # a topic the user has already: try the next one
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

    Drawn from the user's tastes and activity, not taken from the clicks of the log: that would
    need all earlier cycles.
    """
    number, clicked_h = renewal(roll(key, LAST_CLICK, 0), now_h, click_period_h)
    if now_h - clicked_h > FORGET_H:
        return people.categories
    bits = roll(key, LAST_CLICK, number)
    if uniform(bits) < 0.6:
        return favourite % people.categories
    return int(people.categories * uniform(mix(bits)))
