"""The Open Bandit sample: two policies on three campaigns, a week of impressions.

One row an impression: timestamp, click, policy, campaign, position, item, the user's four features
and the item's four. An item's number means something within its campaign only, so its name here
is campaign/number; the texts of item_feature_1 to 3 are hashed differently by policy.
"""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from divergence.errors import InputError
from orchestrator.sources.datasets.movielens import find
from orchestrator.sources.datasets.tables import in_time_order, matching, read_table

POLICIES, CAMPAIGNS = ("random", "bts"), ("all", "men", "women")
USER = [f"user_feature_{n}" for n in range(4)]
ITEM = [f"item_feature_{n}" for n in range(4)]


def convert(folder: Path) -> Iterator[pa.Table]:
    """From the folders <policy>/<campaign> of the data set."""
    one = find(folder, "all.csv")
    if one is None or one.parent.parent.name not in POLICIES:
        raise InputError(f"{folder} has no random/all/all.csv or bts/all/all.csv")
    root = one.parent.parent.parent
    parts = [
        _log(root / policy / campaign, policy, campaign)
        for policy in POLICIES
        for campaign in CAMPAIGNS
        if (root / policy / campaign).is_dir()
    ]
    yield in_time_order(pa.concat_tables(parts))


def _log(folder: Path, policy: str, campaign: str) -> pa.Table:
    log = read_table(folder / f"{campaign}.csv", None, ",")
    items = read_table(folder / "item_context.csv", None, ",")
    item = matching(log, items, "item_id", folder / "item_context.csv")
    name = pc.binary_join_element_wise(campaign, log.column("item_id"), "/")
    columns = {
        "timestamp": log.column("timestamp").cast(pa.timestamp("us", "UTC")),
        "click": log.column("click").cast(pa.int8()),
        "policy": pa.array([policy] * len(log)),
        "campaign": pa.array([campaign] * len(log)),
        "position": log.column("position"),
        "item": name,
        **{feature: log.column(feature) for feature in USER},
        ITEM[0]: item.column(ITEM[0]).cast(pa.float64()),
        **{feature: item.column(feature) for feature in ITEM[1:]},
    }
    return pa.table(columns)
