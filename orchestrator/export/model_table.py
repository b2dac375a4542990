"""Export a model's vectors as plain Parquet, with the numbers needed to use them.

user_vectors.parquet   feature, value, vector (d floats)
ad_vectors.parquet     feature, value, vector (N floats)
ads.parquet            id, vector (N floats): one per ad, if a catalogue is given
model.json             bias, geometry, features, version
"""

import json
from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa

from orchestrator.publish.place import Version
from orchestrator.report.write import parquet
from orchestrator.storage.output import Output
from trainer.model import Model, Side
from trainer.vectors import Vectors


def export_parquet(
    model: Model, version: Version, output: Output, ads: pa.Table | None = None
) -> list[str]:
    """Write the files and return their names. `ads` has the columns id and vector."""
    names = [feature.name for feature in model.config.spec.features]
    files = {
        "user_vectors.parquet": parquet(_side(model.user, model.shape.user, names)),
        "ad_vectors.parquet": parquet(_side(model.ad, model.shape.ad, names)),
    }
    if ads is not None:
        files["ads.parquet"] = parquet(ads)
    files["model.json"] = model_info(model, version)
    for name, data in files.items():
        output.put(name, data)
    return list(files)


def model_info(model: Model, version: Version) -> bytes:
    """model.json: the version, how users' vectors are composed, and the bias."""
    config = model.config
    info: dict[str, Any] = {
        "version": version.number,
        "cycle": version.cycle,
        "line": version.line,
        "published": version.published,
        "bias": float(model.bias[0]),
        "overlap": config.overlap,
        "alone": config.alone,
        "user_features": [asdict(feature) for feature in config.spec.user],
        "ad_features": [asdict(feature) for feature in config.spec.ad],
        "unseen_values": {"init_std": config.init_std, "seed": config.seed},
    }
    return (json.dumps(info, indent=2) + "\n").encode()


def vector_array(vectors: Vectors) -> pa.FixedSizeListArray:
    """Vectors as one Arrow column."""
    flat = pa.array(np.ascontiguousarray(vectors).reshape(-1))
    return pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1])


def _side(side: Side, length: int, names: list[str]) -> pa.Table:
    rows = side.alive()
    return pa.table(
        {
            "feature": pa.array([names[number] for number, _ in side.index]).dictionary_encode(),
            "value": pa.array([value for _, value in side.index], pa.string()),
            "vector": vector_array(side.rows[rows, 0, :length]),
        }
    )
