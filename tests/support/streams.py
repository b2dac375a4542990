"""Small streams of events for the tests of a complete instance: tables, chunks and models."""

from typing import Any

import numpy as np
import pyarrow as pa

from trainer.chunk import Chunk, compile_chunk
from trainer.events import check_events
from trainer.features import Feature, FeatureSpec
from trainer.instance import Job
from trainer.kernel import Tables
from trainer.model import Changes, Model, ModelConfig, WorkingSet, rows_of
from trainer.setting import Setting

SINGLE = FeatureSpec(
    (Feature("age"), Feature("city"), Feature("hour")), (Feature("ad"), Feature("brand"))
)
MULTI = FeatureSpec(
    (Feature("age"), Feature("genres", multi=True, weights="shares")),
    (Feature("ad"), Feature("topics", multi=True)),
)
CONFIGS = {False: ModelConfig(SINGLE, 4, 2, 0.1, 3), True: ModelConfig(MULTI, 1, 1, 0.1, 3)}
"""By whether features have several values. Two geometries in all: each costs a compilation."""
SETTING = Setting(0.5, 1.0, 0.6)


def table_of(events: int, *, seed: int = 0, values: int = 6, multi: bool = False) -> pa.Table:
    """Events in time order; values are the strings of small numbers."""
    draw = np.random.default_rng(seed)

    def column() -> list[str]:
        return [str(v) for v in draw.integers(0, values, events)]

    columns = {
        "click": (draw.random(events) < 0.3).astype(np.uint8),
        "timestamp": np.arange(events),
        "age": column(),
    }
    if not multi:
        columns |= {name: column() for name in ("city", "hour", "ad", "brand")}
        return pa.table(columns)
    sizes = draw.integers(0, 4, events)
    bags = [[str(v) for v in draw.integers(0, values, size)] for size in sizes]
    columns |= {
        "genres": pa.array(bags, pa.list_(pa.string())),
        "shares": pa.array([draw.uniform(0, 1, n).tolist() for n in sizes], pa.list_(pa.float64())),
        "ad": column(),
        "topics": pa.array(bags[::-1], pa.list_(pa.string())),
    }
    return pa.table(columns)


def chunk_of(table: pa.Table, spec: FeatureSpec) -> Chunk:
    """The chunk of all good events of a table."""
    return compile_chunk(check_events(table, spec).table, spec)


def some_chunk(events: int, *, seed: int = 0, values: int = 6, multi: bool = False) -> Chunk:
    """A chunk of `table_of`."""
    spec = CONFIGS[multi].spec
    return chunk_of(table_of(events, seed=seed, values=values, multi=multi), spec)


def job_of(model: Model, tau: float = 15.0, *, reference: bool = True) -> Job:
    """What instances of this model have in common."""
    return Job(model.config.spec, model.shape, tau, reference)


def changed(before: WorkingSet, model: Model, by: float = 1.0) -> Tables:
    """Tables as training might leave them: every number but the padding's is another one."""
    tables = Tables(*(array.copy() for array in before.tables))
    user, ad = rows_of(tables, model.shape)
    user[:, :, : model.shape.user] += by
    ad[:, :, : model.shape.ad] += by
    tables.user_mu[:] += by
    tables.ad_mu[:] += by
    tables.bias[:] += by
    return tables


def trained(model: Model, chunk: Chunk, cycle: int, **options: Any) -> Changes:
    """Gather, change and scatter."""
    before = model.gather(chunk, cycle, **options)
    return model.scatter(chunk, cycle, before, changed(before, model))


def contents(model: Model) -> dict[Any, tuple[bytes, float, int, int]]:
    """Everything that belongs to each vector."""
    found = {}
    for side in (model.user, model.ad):
        for key, row in side.index.items():
            found[key] = (
                side.rows[row].tobytes(),
                float(side.mu[row]),
                int(side.updates[row]),
                int(side.seen[row]),
            )
    return found
