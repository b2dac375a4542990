"""From numbers to an Arrow table: strings as dictionaries, so that no string is made per event."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from orchestrator.sources.simulator.marketplace import Market, Numbers
from orchestrator.sources.simulator.state import AGES, DEVICES, GENDERS, HOURS, Ints, Visits
from orchestrator.sources.simulator.supply import first_seen


class Names:
    """The names of the values that never change."""

    def __init__(self, geos: int, topics: int, categories: int) -> None:
        self.age = pa.array(AGES)
        self.gender = pa.array(GENDERS)
        self.device = pa.array(DEVICES)
        self.hour = _numbered("", np.arange(HOURS))
        self.geo = _numbered("geo-", np.arange(geos))
        self.topic = _numbered("topic-", np.arange(topics))
        self.category = _numbered("category-", np.arange(categories))
        self.last_category = pa.concat_arrays([self.category, pa.array(["none"])])


def event_table(
    names: Names, visits: Visits, market: Market, ads: Numbers, clicks: NDArray[np.uint8]
) -> pa.Table:
    """The log of these visits, one row each: what a model may see, and nothing more."""
    columns = {
        "click": pa.array(clicks),
        "timestamp": pa.array(visits.time_us).view(pa.timestamp("us", tz="UTC")),
        **user_columns(names, visits),
        **ad_columns(names, market, ads),
    }
    return pa.table(columns)


def user_columns(names: Names, visits: Visits) -> dict[str, pa.Array]:
    """What a model may see of these visits' users."""
    topics = _coded(visits.topic, names.topic)
    return {
        "age": _coded(visits.age, names.age),
        "gender": _coded(visits.gender, names.gender),
        "geo": _coded(visits.geo, names.geo),
        "device": _coded(visits.device, names.device),
        "hour": _coded(visits.hour, names.hour),
        "last_category": _coded(visits.last_category, names.last_category),
        "interests": pa.ListArray.from_arrays(pa.array(visits.topic_offset), topics),
        "interest_weights": pa.ListArray.from_arrays(
            pa.array(visits.topic_offset), pa.array(visits.topic_weight)
        ),
    }


def ad_columns(names: Names, market: Market, ads: Numbers) -> dict[str, pa.Array]:
    """What a model may see of these ads."""
    campaigns, creatives = market.campaigns, market.creatives
    distinct, row = first_seen(ads, len(campaigns.live) * creatives)
    places, place_row = first_seen(distinct // creatives, len(campaigns.live))
    advertisers, advertiser_row = first_seen(
        campaigns.advertiser[places].astype(np.int64), int(campaigns.advertiser.max()) + 1
    )
    campaign = _campaign_names(places, campaigns.generation[places])
    creative = pc.binary_join_element_wise(
        campaign.take(pa.array(place_row)), _numbered("", distinct % creatives), "/"
    )
    by_campaign = place_row[row]
    return {
        "creative": _coded(row, creative),
        "campaign": _coded(by_campaign, campaign),
        "advertiser": _coded(advertiser_row[by_campaign], _numbered("advertiser-", advertisers)),
        "category": _coded(campaigns.category[places][by_campaign], names.category),
    }


def _campaign_names(places: Numbers, generations: Numbers) -> pa.Array:
    """A campaign is named by its place and its number in the sequence of that place."""
    return pc.binary_join_element_wise(
        _numbered("c", places), pa.array(generations).cast(pa.string()), "."
    )


def _numbered(prefix: str, numbers: NDArray[np.int64]) -> pa.Array:
    return pc.binary_join_element_wise(prefix, pa.array(numbers).cast(pa.string()), "")


def _coded(codes: Ints, names: pa.Array) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(codes), names)
