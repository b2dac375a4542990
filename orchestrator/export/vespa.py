"""Export ads as Vespa documents, with a schema that ranks them by b + nu_u . nu_a.

    schemas/NAME.sd   the document type, and a rank profile that takes user vector and bias
    feed.jsonl        one put per ad, for `vespa feed`
    model.json        the version of the model

A document holds the ad's vector, the sum of its features' vectors. The user's vector is composed
for each request, because it changes with the hour and with the last clicks. POST /v1/user-vector
returns it together with the bias. Send both with the query, as input.query(user_vector) and
input.query(bias). Vespa only computes a dot product.
"""

import json
import re
from collections.abc import Iterator
from string import Template

import pyarrow as pa

from divergence.errors import InputError
from orchestrator.export.model_table import model_info
from orchestrator.publish.place import Version
from orchestrator.storage.output import Output
from trainer.model import Model

NAMESPACE = "holdfast"
SCHEMA = Template("""\
# Made by `holdfast export`: a model of $length entries, version $version.
schema $name {
    document $name {
        field ad_id type string {
            indexing: summary | attribute
        }
        field model_version type long {
            indexing: summary | attribute
        }
        field vector type tensor<float>(x[$length]) {
            indexing: attribute
        }
    }

    rank-profile holdfast {
        inputs {
            query(user_vector) tensor<float>(x[$length])
            query(bias) double: $bias
        }
        function logit() {
            expression: query(bias) + sum(query(user_vector) * attribute(vector))
        }
        function pctr() {
            expression: sigmoid(logit)
        }
        first-phase {
            expression: logit
        }
        summary-features: pctr
    }
}
""")


def export_vespa(
    model: Model, version: Version, output: Output, ads: pa.Table, name: str = "holdfast_ad"
) -> list[str]:
    """Write the schema and the feed. `ads` has the columns id and vector."""
    if not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]*", name):
        raise InputError(f"--name {name}: must be letters, digits and _, not starting with a digit")
    schema = SCHEMA.substitute(
        name=name, length=model.shape.ad, version=version.number, bias=repr(float(model.bias[0]))
    )
    files = {
        f"schemas/{name}.sd": schema.encode(),
        "feed.jsonl": b"".join(_puts(ads, version, name)),
        "model.json": model_info(model, version),
    }
    for path, data in files.items():
        output.put(path, data)
    return list(files)


def _puts(ads: pa.Table, version: Version, name: str) -> Iterator[bytes]:
    for key, vector in zip(ads.column("id"), ads.column("vector"), strict=True):
        fields = {
            "ad_id": key.as_py(),
            "model_version": version.number,
            "vector": {"values": vector.as_py()},
        }
        put = {"put": f"id:{NAMESPACE}:{name}::{key.as_py()}", "fields": fields}
        yield (json.dumps(put, ensure_ascii=False) + "\n").encode()
