"""The kernels' arguments and results: flat arrays in named tuples."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]

AGES = ("13-17", "18-24", "25-34", "35-44", "45-54", "55-64", "65+")
GENDERS = ("female", "male", "unknown")
DEVICES = ("mobile", "desktop", "tablet")
HOURS = 24


class People(NamedTuple):
    """Users: the constant traits of each, and what their visits are drawn from."""

    age: NDArray[np.uint8]
    gender: NDArray[np.uint8]
    geo: NDArray[np.uint16]
    activity: Floats  # events of this user against the average user's
    clicks_per_day: float  # of the average user
    desktop_share: Floats  # by hour of the week, from Monday's first
    topics: int
    categories: int
    topic_lifetime_h: float


class Turnover(NamedTuple):
    """How campaigns start, end and pause; units as in the config."""

    campaigns: int
    advertisers: int
    categories: int
    popularity_skew: float
    bid_usd: float
    lifetime_h: float
    lifetime_spread: float
    depletion_share: float
    pauses_per_day: float
    pause_h: float
    flags_per_day: float
    flag_h: float


class Campaigns(NamedTuple):
    """The campaign in each place, at one time. Arrays of length `campaigns`."""

    identity: NDArray[np.uint64]
    generation: NDArray[np.int64]  # how many campaigns the place has held; may be negative
    advertiser: Ints
    category: Ints
    age_h: Floats
    bid_usd: Floats
    weight: Floats  # popularity: impressions are served in proportion to it
    live: NDArray[np.bool_]  # neither paused, flagged nor out of budget


class Tastes(NamedTuple):
    """What users like, at one time: (values, rank + 1) each; the last column is a main effect."""

    age_gender: Floats
    device_hour: Floats
    geo: Floats
    last_category: Floats
    topic: Floats


class Visits(NamedTuple):
    """Users at a time, with the features a model may see. Arrays of length n, and ragged topics."""

    user: NDArray[np.int64]
    time_us: NDArray[np.int64]  # microseconds since 1970, UTC
    age: Ints
    gender: Ints
    geo: Ints
    device: Ints
    hour: Ints
    last_category: Ints  # `categories` means none within a week
    topic_offset: Ints  # (n + 1,): the topics of visit i are at [offset[i], offset[i + 1])
    topic: Ints
    topic_weight: NDArray[np.float32]


class Ads(NamedTuple):
    """Ads at one time, as the truth sees them."""

    vector: Floats  # (n, rank + 1); the last column is 1 and takes up the users' main effects
    logit: Floats  # (n,) quality and shock
    category: Ints
    exposure: Floats  # views of the campaign so far by the average user


class Quality(NamedTuple):
    """How good ads are, and how that drifts; units as in the config."""

    seed: np.uint64
    creatives: int
    sd: float
    drift_h: float
    drift_share: float


class Hidden(NamedTuple):
    """The effects that no OFFSET model can represent."""

    seed: np.uint64
    hidden_sd: float
    fatigue: float
