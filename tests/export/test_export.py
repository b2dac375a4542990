"""Exports: whoever reads the files alone gets the scorer's numbers."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from divergence.errors import InputError
from orchestrator.export.catalogue import catalogue_vectors
from orchestrator.export.model_table import export_parquet
from orchestrator.export.vespa import export_vespa
from orchestrator.publish.origin import RunOrigin
from orchestrator.serving.scorer import Scorer
from orchestrator.storage.output import Output
from support.small_run import SmallRun

USER = {"age": "25-34", "gender": "female", "device": "mobile"}
ADS = [
    {"id": "a/1", "campaign": "c1.0", "category": "category-1"},
    {"id": "a 2", "campaign": None, "category": "category-2"},
    {"id": "ä3", "campaign": "not yet seen", "category": "category-1"},
]


@pytest.fixture
def scorer(run: SmallRun) -> Scorer:
    run.play()
    return Scorer(RunOrigin(run.store, None))


@pytest.fixture
def catalogue(tmp_path: Path) -> Path:
    path = tmp_path / "ads.parquet"
    pq.write_table(pa.Table.from_pylist(ADS), path)
    return path


def logits(scorer: Scorer) -> np.ndarray:
    ads = [{k: v for k, v in ad.items() if k != "id"} for ad in ADS]
    pctr = scorer.score(USER, ads).pctr
    return np.log(pctr / (1 - pctr))


def test_parquet_holds_all_that_a_score_needs(
    run: SmallRun, scorer: Scorer, catalogue: Path, tmp_path: Path
) -> None:
    """Composed here by the letter of DESIGN: pairs of user features, then what stands alone."""
    model, version = run.model, scorer.current.version
    out = tmp_path / "out"
    ads = catalogue_vectors(model, str(catalogue), "id")
    assert len(export_parquet(model, version, Output(str(out)), ads)) == 4
    about = json.loads((out / "model.json").read_text())
    k, o, s = 3, about["overlap"], about["alone"]
    users = {
        (row["feature"], row["value"]): row["vector"]
        for row in pq.read_table(out / "user_vectors.parquet").to_pylist()
    }
    v = [np.array(users[name, USER[name]]) for name in ("age", "gender", "device")]
    parts = []
    for p in range(k):
        for q in range(p + 1, k):
            parts.append(v[p][(q - 1) * o : q * o] * v[q][p * o : (p + 1) * o])
    parts += [each[(k - 1) * o : (k - 1) * o + s] for each in v]
    user = np.concatenate(parts)
    vectors = np.array(pq.read_table(out / "ads.parquet").column("vector").to_pylist())
    np.testing.assert_allclose(vectors @ user + about["bias"], logits(scorer), rtol=1e-4)
    values = pq.read_table(out / "ad_vectors.parquet").to_pylist()
    assert len(values) == len(model.ad)
    [known] = [
        r["vector"] for r in values if (r["feature"], r["value"]) == ("category", "category-1")
    ]
    np.testing.assert_array_equal(np.array(known, np.float32), _vector(run, "category-1"))


def test_vespa_ranks_as_the_scorer_does(
    run: SmallRun, scorer: Scorer, catalogue: Path, tmp_path: Path
) -> None:
    """No Vespa is here: the schema's own expression is evaluated on the feed's own documents."""
    out = tmp_path / "app"
    ads = catalogue_vectors(run.model, str(catalogue), "id")
    export_vespa(run.model, scorer.current.version, Output(str(out)), ads)
    schema = Schema((out / "schemas/holdfast_ad.sd").read_text())
    assert schema.name == "holdfast_ad"
    vector, bias, version = scorer.user_vector(USER)
    inputs = {"user_vector": vector, "bias": bias}
    expected = logits(scorer)
    lines = (out / "feed.jsonl").read_text().splitlines()
    assert len(lines) == len(ADS)
    for line, ad, logit in zip(lines, ADS, expected, strict=True):
        put = json.loads(line)
        assert set(put) == {"put", "fields"}
        assert put["put"] == f"id:holdfast:holdfast_ad::{ad['id']}"
        assert put["fields"]["model_version"] == version.number
        found = schema.rank(put["fields"], inputs)
        assert found == pytest.approx(logit, rel=1e-4)
        assert schema.rank(put["fields"], {"user_vector": vector}) == pytest.approx(found)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"id": "a/1"}, "id must be unique and not empty, but see 'a/1'"),
        ({"id": None}, "id must be unique and not empty, but see None"),
    ],
)
def test_ids_must_tell_ads_apart(
    run: SmallRun, scorer: Scorer, catalogue: Path, change: dict[str, Any], told: str
) -> None:
    pq.write_table(pa.Table.from_pylist([*ADS, ADS[0] | {"id": "b"} | change]), catalogue)
    with pytest.raises(InputError, match=re.escape(told)):
        catalogue_vectors(run.model, str(catalogue), "id")


def test_what_is_wrong_with_a_catalogue_is_told(
    run: SmallRun, scorer: Scorer, catalogue: Path, tmp_path: Path
) -> None:
    model = run.model
    with pytest.raises(InputError, match="has no column 'key'"):
        catalogue_vectors(model, str(catalogue), "key")
    pq.write_table(pa.Table.from_pylist(ADS).drop_columns(["category"]), catalogue)
    with pytest.raises(InputError, match="have no column 'category'"):
        catalogue_vectors(model, str(catalogue), "id")
    with pytest.raises(InputError, match=r"must end in \.parquet, \.csv, \.jsonl"):
        catalogue_vectors(model, "ads.txt", "id")
    catalogue.write_bytes(b"nonsense")
    with pytest.raises(InputError, match="cannot be read"):
        catalogue_vectors(model, str(catalogue), "id")
    ads = pa.table({"id": ["a"], "vector": [[0.0]]})
    with pytest.raises(InputError, match="--name 1x: must be letters"):
        export_vespa(model, scorer.current.version, Output(str(tmp_path)), ads, "1x")


def _vector(run: SmallRun, value: str) -> np.ndarray:
    side = run.model.ad
    return side.rows[side.index[4, value], 0, : run.model.shape.ad]


class Schema:
    """As much of Vespa's schema language as ours uses; anything else is an error."""

    def __init__(self, text: str) -> None:
        body = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
        assert body.count("{") == body.count("}")
        self.name = self._one(r"^schema (\w+) \{", body)
        assert self._one(r"document (\w+) \{", body) == self.name
        self.fields = dict(re.findall(r"field (\w+) type ([\w<>()\[\]]+) \{", body))
        self.inputs = dict(re.findall(r"query\((\w+)\) ([\w<>()\[\]]+)(?::|$)", body, re.M))
        self.defaults = {
            name: float(value)
            for name, value in re.findall(r"query\((\w+)\) double: (\S+)$", body, re.M)
        }
        functions = re.findall(r"function (\w+)\(\) \{\s+expression: (.+)\n", body)
        self.functions = dict(functions)
        self.first_phase = self._one(r"first-phase \{\s+expression: (.+)\n", body)
        assert set(self.inputs) == {"user_vector", "bias"}
        assert self.inputs["user_vector"] == self.fields["vector"]

    def rank(self, fields: dict[str, Any], inputs: dict[str, Any]) -> float:
        """The first phase's value for one document."""
        assert set(fields) == set(self.fields)
        length = int(self._one(r"x\[(\d+)\]", self.fields["vector"]))
        vector = np.array(fields["vector"]["values"])
        assert vector.shape == (length,)
        given = self.defaults | inputs
        expression = self.functions[self.first_phase]
        for name in re.findall(r"query\((\w+)\)", expression):
            assert name in self.inputs
        names = {"query": given.__getitem__, "attribute": {"vector": vector}.__getitem__}
        quoted = re.sub(r"(query|attribute)\((\w+)\)", r"\1('\2')", expression)
        assert re.fullmatch(r"[\w\s'()+*]+", quoted)
        return float(eval(quoted, {"__builtins__": {}}, names | {"sum": np.sum}))

    @staticmethod
    def _one(pattern: str, text: str) -> str:
        [found] = re.findall(pattern, text, re.M)
        return str(found)
