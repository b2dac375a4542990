"""What makes people click: for evaluation, never for training."""

import math

import numpy as np
from numpy.typing import NDArray

from divergence.jit import jit
from orchestrator.sources.simulator.chance import (
    ADVERTISER,
    CLICK,
    CLIQUE,
    CREATIVE,
    FIXED,
    QUALITY,
    WHIM,
    drifting,
    normal,
    roll,
    uniform,
)
from orchestrator.sources.simulator.state import (
    Ads,
    Campaigns,
    Floats,
    Hidden,
    Ints,
    Quality,
    Tastes,
    Visits,
)


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
    visits: Visits, ads: Ads, ad: Ints, tastes: Tastes, hidden: Hidden, activity: Floats
) -> Floats:
    """Log-odds of a click, without the market's constant; ad[i]: the row of visit i's ad."""
    n, width = len(ad), ads.vector.shape[1]
    logits = np.empty(n)
    for i in range(n):
        a = ad[i]
        age_gender = tastes.age_gender[visits.age[i] * 3 + visits.gender[i]]
        device_hour = tastes.device_hour[visits.device[i] * 24 + visits.hour[i]]
        geo = tastes.geo[visits.geo[i]]
        last = tastes.last_category[visits.last_category[i]]
        first, end = visits.topic_offset[i], visits.topic_offset[i + 1]
        weights = 0.0
        for j in range(first, end):
            weights += visits.topic_weight[j]
        dot = ads.logit[a]
        for k in range(width):
            topics = 0.0
            for j in range(first, end):
                topics += visits.topic_weight[j] * tastes.topic[visits.topic[j], k]
            taste = age_gender[k] + device_hour[k] + geo[k] + last[k] + topics / weights
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
def click_on(key: np.uint64, ads: NDArray[np.int64], probability: Floats) -> NDArray[np.uint8]:
    """1 where the user clicks; the coin is a hash of the visit and the ad."""
    clicks = np.empty(len(probability), np.uint8)
    for i in range(len(probability)):
        coin = uniform(roll(roll(key, CLICK, i), CLICK, ads[i]))
        clicks[i] = coin < probability[i]
    return clicks
