"""Requests hold raw values, as in the logs: a version carries the mapping of its source."""

import asyncio
import json
import math
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from divergence.errors import InputError
from orchestrator.cli import holdfast
from orchestrator.config.schema import PublishConfig
from orchestrator.export.catalogue import catalogue_vectors
from orchestrator.journal.journal import read_record
from orchestrator.journal.models import served_text
from orchestrator.journal.run_folder import prepare
from orchestrator.loop.run import run
from orchestrator.offline.score_files import champion_of, score_files
from orchestrator.pool.local_pool import LocalPool
from orchestrator.publish.origin import PlaceOrigin, RunOrigin
from orchestrator.publish.place import read_version, write_version
from orchestrator.publish.publisher import Publisher
from orchestrator.serving.app import App
from orchestrator.serving.scorer import Scorer
from orchestrator.serving.turns import PendingRequest, Turns, Work
from orchestrator.sources.files.mapping import columns
from orchestrator.sources.files.mapping.raw import RawFeature, RawMapping
from orchestrator.sources.files.reading import Column
from orchestrator.storage.local_store import LocalStore
from support.configs import config
from trainer.features import Feature

TEXT = """
source:
  kind: files
  path: PATH
  cut: {events: 40}
  missing: [NA]
  columns:
    age: {column: user_age, bins: [18, 35, 45]}
    zip: {slice: [0, 2]}
    genres: {split: "|"}
features: {user: [age, zip, {name: genres, multi: true}], ad: [ad, price], timestamp: null}
search: {instances: 2}
arms: [{name: a, rule: l2}]
"""


class Asked:
    """A service in this process."""

    def __init__(self, app: App) -> None:
        self.app = app

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """The body of its answer, which is not JSON for /metrics."""
        if method == "GET":
            text = self.app.answer(method, path).body.decode()
            return json.loads(text) if text.startswith("{") else text
        work = self.app.works[path](json.dumps(body).encode(), "application/json")
        return json.loads(asyncio.run(done(work)).body)


async def done(work: Work) -> Any:
    """What the work ends with, in however many turns."""
    loop = asyncio.get_running_loop()
    answer = loop.create_future()
    Turns(loop).add(PendingRequest(work, answer.set_result), large=False)
    return await answer


class Served:
    """A run over a file with a mapping, and its champion."""

    def __init__(self, folder: Path) -> None:
        path, lines = folder / "e.csv", ["click,user_age,zip,genres,ad,price"]
        for i in range(40):
            genres = "Action|Comedy" if i % 2 else "Drama"
            lines.append(f"{i % 3 == 0:d},{10 + i},{94000 + 100 * i},{genres},ad{i % 4},NA")
        path.write_text("\n".join(lines) + "\n")
        self.path, self.config = path, config(TEXT.replace("PATH", str(path)))
        self.store, self.place = LocalStore(folder / "run"), LocalStore(folder / "place")
        run(self.config, self.store, prepare(self.store, self.config), [], LocalPool)
        terms = PublishConfig(to=self.place.uri)
        record = read_record(self.store, "a", 0)
        assert Publisher(self.config, self.store, self.place, terms).publish(record)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Served:
    return Served(tmp_path_factory.mktemp("raw"))


USER = {"age": 37, "zip": "94043", "genres": "Action|Comedy"}
ADS = [{"ad": "ad3", "price": "NA"}]


@pytest.mark.parametrize("published", [True, False])
def test_raw_values_get_the_score_of_the_logs(served: Served, published: bool) -> None:
    scorer = Scorer(PlaceOrigin(served.place) if published else RunOrigin(served.store, None))
    found = scorer.score(USER, ADS)
    assert found.unseen == {}
    _, model = champion_of(served.store, served.config, "a", None)
    line = served.path.with_name("one.csv")
    line.write_text("user_age,zip,genres,ad,price\n37,94043,Action|Comedy,ad3,NA\n")
    (table,) = score_files(model, served.config, str(line))
    np.testing.assert_allclose(found.pctr, table.column("pctr").to_numpy(), rtol=2e-6)
    same: list[dict[str, Any]] = [
        USER | {"age": "37"},
        USER | {"age": 37.0, "genres": ["Action", "Comedy"]},
        {"user_age": 37} | {name: USER[name] for name in ("zip", "genres")},  # as in the logs
        USER | {"age": "[35,45)", "zip": 94},  # mapped already
    ]
    for user in same:
        assert scorer.score(user, [{"ad": "ad3", "price": None}]).pctr == found.pctr


def test_values_that_the_model_does_not_know_are_listed_and_counted(served: Served) -> None:
    service = Asked(App(Scorer(PlaceOrigin(served.place))))
    ads = [*ADS, {"ad": "new", "price": 3}, {"ad": "new", "price": "NA"}]
    answer = service.ask("POST", "/v1/score", {"user": USER | {"zip": "10115"}, "ads": ads})
    assert len(answer["pctr"]) == 3
    assert answer["unseen"] == {"ad": ["new"], "price": ["3"], "zip": ["10"]}
    batch = {"requests": [{"user": USER, "ads": ADS}, {"user": USER, "ads": ads}]}
    answer = service.ask("POST", "/v1/batch", batch)
    assert answer["unseen"] == [{}, {"ad": ["new"], "price": ["3"]}]
    metrics = service.ask("GET", "/metrics")
    assert 'holdfast_unseen_values_total{feature="ad"} 4.0' in metrics
    assert 'holdfast_unseen_values_total{feature="zip"} 1.0' in metrics


def test_the_version_says_what_each_feature_expects(served: Served) -> None:
    version = Asked(App(Scorer(PlaceOrigin(served.place)))).ask("GET", "/version")
    assert version["expects"] == {
        "age": "a number, put into <18, [18,35), [35,45), >=45, or null if unknown "
        "(as age or user_age)",
        "zip": "a text, of which the characters from 0 up to 2 are used, or null if unknown",
        "genres": "a text with values separated by '|', a list of values or an object of values "
        "and weights, or null if unknown",
        "ad": "a text, a number, true or false, or null if unknown",
        "price": "a text, a number, true or false, or null if unknown",
    }


def test_the_example_of_the_version_is_a_request_of_known_values(served: Served) -> None:
    asked = Asked(App(Scorer(PlaceOrigin(served.place))))
    example = asked.ask("GET", "/version")["example"]
    assert example["user"] == {"age": 18, "zip": "94", "genres": "Drama|Action"}
    wrong = {**example, "user": {**example["user"], "age": "abc"}}
    work = asked.app.works["/v1/score"](json.dumps(wrong).encode(), "application/json")
    bins = "<18, [18,35), [35,45), >=45"
    refused = str(asyncio.run(done(work)))
    assert refused == f'user.age: must be a number, put into {bins}, but is "abc"'
    answer = asked.ask("POST", "/v1/score", example)
    assert len(answer["pctr"]) == 1
    assert not answer["unseen"]


def test_a_version_without_a_mapping_is_written_as_before(tmp_path: Path, served: Served) -> None:
    version, store = read_version(served.place, 1), LocalStore(tmp_path)
    assert version.mapping is not None
    write_version(store, replace(version, mapping=None))
    assert "mapping" not in (tmp_path / "versions/00000001.json").read_text()
    assert read_version(store, 1).mapping is None


def test_a_catalogue_of_ads_has_raw_values_too(tmp_path: Path, served: Served) -> None:
    _, model = champion_of(served.store, served.config, "a", None)
    mapping = RawMapping(columns={"ad": Column(column="ad_id", slice=(0, 3))}, missing=("NA",))
    ads = tmp_path / "ads.csv"
    ads.write_text("id,ad_id,price\n1,ad3-long,NA\n2,ad0,7\n")
    mapped = tmp_path / "mapped.csv"
    mapped.write_text("id,ad,price\n1,ad3,\n2,ad0,7\n")
    found = catalogue_vectors(model, str(ads), "id", mapping)
    assert found.equals(catalogue_vectors(model, str(mapped), "id"))


@given(
    text=st.one_of(
        st.floats(allow_nan=True).map(str),
        st.integers(-(10**6), 10**6).map(str),
        st.sampled_from(
            ["", " 7 ", "NA", "nan", "-0", "1e3", "1_0", "0x10", "٣", "seven", "8", "64"]
        ),
        st.builds(  # the edges of bins that grow, and the numbers beside them
            lambda base, power, up: str(math.nextafter(base**power, math.inf * up)),
            st.sampled_from([1.5, 2, 10]),
            st.integers(-300, 80),
            st.sampled_from([-1, 1]),
        ),
        st.builds(
            lambda base, power: str(float(base**power)),
            st.sampled_from([1.5, 2, 10]),
            st.integers(-300, 80),
        ),
    ),
    rule=st.sampled_from(
        [
            Column(),
            Column(bins=(18, 25.5, 64)),
            Column(log=2),
            Column(log=1.5),
            Column(log=10),
            Column(round=5),
            Column(round=0.1),
            Column(slice=(0, 2)),
        ]
    ),
)
def test_one_value_is_mapped_as_a_file_is(text: str, rule: Column) -> None:
    made = columns.values(pa.array([text]), rule, ("NA",), "x")
    broken = made.unusable is not None and bool(made.unusable[0])
    feature = RawFeature(Feature("x"), rule, ("NA",))
    if broken:
        with pytest.raises(InputError, match=r"must be a number, .* but is"):
            feature.value(text)
        return
    mapped = made.values.cast(pa.string())[0].as_py() or ""
    assert feature.value(text) == mapped
    if mapped:
        assert feature.value(str(feature.example([mapped]))) == mapped


@pytest.mark.parametrize(
    ("rule", "known", "raw"),
    [
        (Column(bins=(18, 45)), "<18", 17),
        (Column(bins=(18, 45)), "[18,45)", 18),
        (Column(bins=(18, 45)), ">=45", 45),
        (Column(log=2), "[0.5,1)", 0.5),
        (Column(log=2), "0", 0),
        (Column(log=2), "<0", -1),
        (Column(round=0.5), "1.5", 1.5),
        (Column(slice=(2, 4)), "94", "--94"),
        (Column(), "x", "x"),
    ],
)
def test_an_example_is_raw(rule: Column, known: str, raw: object) -> None:
    assert RawFeature(Feature("x"), rule, ()).example([known, "other"]) == raw


def test_several_values_are_an_example_as_in_the_logs() -> None:
    feature = Feature("x", multi=True)
    assert RawFeature(feature, Column(split="|"), ()).example(["sport", "travel"]) == "sport|travel"
    assert RawFeature(feature, Column(), ()).example(["sport"]) == ["sport"]
    assert RawFeature(feature, Column(split="|"), ()).example([]) is None


@pytest.mark.parametrize(
    ("text", "base"),
    [("970739.7373664756", 1.5), ("0.00020048577321447831", 1.5), ("9.999999999999999e-06", 10)],
)
def test_numbers_beside_an_edge_have_one_bin(text: str, base: float) -> None:
    """NumPy's powers of arrays differ from those of single numbers in the last bit."""
    rule = Column(log=base)
    made = columns.values(pa.array([text] * 9), rule, (), "x").values.to_pylist()
    assert set(made) == {RawFeature(Feature("x"), rule, ()).value(text)}


def test_long_values_are_not_remembered() -> None:
    feature = RawFeature(Feature("x"), Column(slice=(0, 2)), ())
    tracemalloc.start()
    for i in range(200):
        assert feature.value(f"{i:03d}" + "x" * 100_000) == f"{i:03d}"[:2]
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 1_000_000


def test_score_and_export_name_the_arm_and_cycle(served: Served, tmp_path: Path) -> None:
    def said(*arguments: str) -> str:
        done = CliRunner().invoke(holdfast, list(arguments))
        assert done.exit_code == 0, done.output
        return done.stderr + done.stdout

    out = str(tmp_path / "pctr.csv")
    text = said("score", served.store.uri, str(served.path), "--out", out)
    assert "scored 40 rows with the champion of a after cycle 0\n" in text
    export = ("--as", "parquet", "--out", str(tmp_path / "out"))
    assert "exported the champion of a after cycle 0 to " in said(
        "export", served.store.uri, *export
    )
    assert "exported version 1 (cycle 0) to " in said("export", served.place.uri, *export)


def test_an_arm_that_was_not_chosen_is_named_with_the_others(served: Served) -> None:
    two = config(TEXT.replace("rule: l2}]", "rule: l2}, {name: b, rule: none}]"))
    record = read_record(served.store, "a", 0)
    assert served_text(record, two, None).endswith("of a after cycle 0 (other arms: b; --arm)")
    assert served_text(record, two, "a").endswith("of a after cycle 0")


def test_score_counts_the_values_that_the_model_does_not_know(
    served: Served, tmp_path: Path
) -> None:
    path = tmp_path / "other.csv"
    rows = ["37,94043,Action|Western,adX,NA", "37,94043,Comedy,adX,NA", "37,94043,Western,ad3,NA"]
    path.write_text("\n".join(["user_age,zip,genres,ad,price", *rows, ""]))
    out = str(tmp_path / "pctr.csv")

    def said() -> list[str]:
        done = CliRunner().invoke(holdfast, ["score", served.store.uri, str(path), "--out", out])
        assert done.exit_code == 0, done.output
        return done.stderr.splitlines()[1:]

    assert said() == [
        "genres: 2 of 4 values are not known to the model (such as 'Western')",
        "ad: 2 of 3 values are not known to the model (such as 'adX')",
    ]
    path.write_text("user_age,zip,genres,ad,price\n37,94043,Action,adX,NA\n37,94043,Drama,,NA\n")
    assert said() == ["ad: none of the 2 values is known to the model (such as 'adX')"]
    path.write_text("user_age,zip,genres,ad,price\n37,94043,Action,ad1,NA\n")
    assert said() == []
