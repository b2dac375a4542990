"""The scorer: what training would predict, from any thread, while champions change."""

import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from divergence.errors import InputError
from orchestrator.config.schema import PublishConfig
from orchestrator.publish.origin import PlaceOrigin, RunOrigin
from orchestrator.publish.place import Version
from orchestrator.publish.publisher import Publisher
from orchestrator.serving.request import RequestDecoder, RequestError, text_of
from orchestrator.serving.scorer import Scorer
from orchestrator.serving.snapshot import Unseen, snapshot
from orchestrator.storage.local_store import LocalStore
from support.small_run import SmallRun
from trainer.chunk import compile_chunk
from trainer.features import Feature, FeatureSpec
from trainer.model import Model, ModelConfig
from trainer.scoring import score

SPEC = FeatureSpec(
    user=(Feature("age"), Feature("tags", multi=True, weights="shares"), Feature("geo")),
    ad=(Feature("campaign"), Feature("words", multi=True)),
)
VERSION = Version(1, "line/arm", 0, "2024-05-01T12:00:00+00:00", ())
USERS: list[dict[str, Any]] = [
    {"age": "a", "tags": ["x", "y"], "shares": [0.25, 0.75], "geo": 1},
    {"age": None, "tags": [], "shares": [], "geo": 2.0},
    {"age": "never seen", "tags": ["y", "y"], "shares": [2.0, 1.0], "geo": True},
    {"age": "", "tags": ["x"], "shares": [0.0], "geo": 0.125},
]
ADS: list[dict[str, Any]] = [
    {"campaign": "c1", "words": ["w"]},
    {"campaign": "c2", "words": ["w", "v", "v"]},
    {"campaign": None, "words": None},
    {"campaign": "new", "words": ["also new"]},
]


def as_table(users: list[dict[str, Any]], ads: list[dict[str, Any]]) -> pa.Table:
    """Every user with every ad, user by user."""
    rows = [user | ad for user in users for ad in ads]
    texts = [row | {"geo": text_of(row["geo"])} for row in rows]
    return pa.Table.from_pylist(texts)


@pytest.fixture(scope="module")
def model() -> Model:
    made = Model(ModelConfig(SPEC, overlap=2, alone=1, init_std=0.7, seed=5))
    chunk = compile_chunk(as_table(USERS[:2], ADS[:2]), SPEC, labelled=False)
    start = made.gather(chunk, 0)
    made.scatter(chunk, 0, start, start.tables)
    made.bias[0] = -1.25
    return made


def test_scores_are_what_training_would_predict(model: Model) -> None:
    """Known, unknown, missing, weighted, listed twice, numbers and truth values."""
    taken = snapshot(model, VERSION)
    users, ads = RequestDecoder("user", SPEC.user), RequestDecoder("ad", SPEC.ad)
    mistakes: list[str] = []
    read_ads = [ads.read(ad, "ad", mistakes) for ad in ADS]
    unseen: Unseen = Counter()
    found = []
    for user in USERS:
        vector = taken.user_vector(users.read(user, "user", mistakes), unseen)
        found.append(taken.pctr(vector, taken.slots(taken.ad, map(enumerate, read_ads), unseen)))
    assert mistakes == []
    expected = score(model, as_table(USERS, ADS)).reshape(len(USERS), len(ADS))
    np.testing.assert_allclose(found, expected, rtol=2e-6)
    assert np.ptp(expected) > 0.05
    assert unseen["age", "never seen"] == 1
    assert unseen["words", "also new"] == len(USERS)
    assert ("age", "a") not in unseen


def test_weights_may_come_with_the_values(model: Model) -> None:
    users, mistakes = RequestDecoder("user", SPEC.user), list[str]()
    listed = users.read(USERS[0], "user", mistakes)
    mapped = users.read({"age": "a", "tags": {"x": 1, "y": 3}, "geo": 1}, "user", mistakes)
    assert mistakes == []
    assert listed == mapped


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            {"agee": 1},
            "user.agee: unknown feature (did you mean age?); features of the user: age, ",
        ),
        ({"geo": ...}, "user.geo: missing: use null for an unknown value"),
        ({"age": {}}, "user.age: must be a string, a number, true, false or null, but is {}"),
        ({"tags": "x"}, 'user.tags: must be a list, an object of weights or null, but is "x"'),
        ({"shares": [1]}, "user.tags: shares must be a list of 2 weights, one for each value"),
        ({"shares": [1, -1]}, "user.tags: a weight must be from 0 to 1e+30, but is -1"),
        ({"shares": [1, "1"]}, 'user.tags: a weight must be from 0 to 1e+30, but is "1"'),
        ({"shares": [1, 10**400]}, "user.tags: a weight must be from 0 to 1e+30, but is 1"),
        ({"geo": "\ud800"}, "user.geo: must be valid UTF-8, but is"),
        ({"tags": [["x"], "y"]}, "user.tags: must be a string, a number"),
    ],
)
def test_a_request_is_checked_against_the_features(change: dict[str, Any], told: str) -> None:
    given = {k: v for k, v in (USERS[0] | change).items() if v is not ...}
    mistakes: list[str] = []
    RequestDecoder("user", SPEC.user).read(given, "user", mistakes)
    assert len(mistakes) == 1
    assert mistakes[0].startswith(told)


def test_a_model_that_is_not_finite_is_not_served(model: Model) -> None:
    broken = Model(model.config)
    broken.bias[0] = np.nan
    with pytest.raises(InputError, match="not finite"):
        snapshot(broken, VERSION)


# -- following ------------------------------------------------------------------------------------

USER = {"age": "25-34", "gender": "female", "device": "mobile"}
AD = {"campaign": "c1.0", "category": "category-1"}


def publisher_to(run: SmallRun, place: LocalStore) -> Callable[[], Version | None]:
    publisher = Publisher(run.config, run.store, place, PublishConfig(to=place.uri))
    return lambda: publisher.publish(run.play())


def test_a_newer_champion_is_swapped_in(run: SmallRun, tmp_path: Path) -> None:
    publish = publisher_to(run, place := LocalStore(tmp_path / "place"))
    publish()
    scorer = Scorer(PlaceOrigin(place))
    first = scorer.score(USER, [AD, AD])
    assert not scorer.refresh()
    publish()
    assert scorer.refresh()
    second = scorer.score(USER, [AD, AD])
    assert (first.version.number, second.version.number) == (1, 2)
    assert second.pctr[0] == second.pctr[1] != first.pctr[0]
    row = {k: [v] for k, v in (USER | AD).items()}
    np.testing.assert_allclose(second.pctr[:1], score(run.model, pa.table(row)), rtol=2e-6)
    assert scorer.watch.swaps == 2
    assert scorer.age_s >= 0


def test_a_torn_version_leaves_the_last_one_serving(run: SmallRun, tmp_path: Path) -> None:
    publish = publisher_to(run, place := LocalStore(tmp_path / "place"))
    publish()
    scorer = Scorer(PlaceOrigin(place))
    torn = publish()
    assert torn is not None
    file = Path(place.uri) / torn.files[-1].path
    file.write_bytes(file.read_bytes()[:-9])
    assert not scorer.refresh()
    assert scorer.score(USER, [AD]).version.number == 1
    assert scorer.watch.faults == 1
    assert "corrupt" in scorer.watch.last_fault
    publish()  # a full model, or a chain that is torn at the same place
    scorer.refresh()
    assert np.isfinite(scorer.score(USER, [AD]).pctr[0])


def test_what_cannot_be_answered_is_told(run: SmallRun) -> None:
    with pytest.raises(InputError, match="has no model that can be served"):
        Scorer(RunOrigin(run.store, None))
    run.play()
    scorer = Scorer(RunOrigin(run.store, None))
    with pytest.raises(RequestError, match=r"^ads: must have at least one ad, but is empty"):
        scorer.score(USER, [])
    with pytest.raises(RequestError, match="ads: must be at most 10000 in total, but are 10001"):
        scorer.score(USER, [AD] * 10_001)
    with pytest.raises(RequestError) as error:
        scorer.score_batch([(USER, [AD]), ({}, [AD, {"campaign": 1}])])
    assert str(error.value).splitlines()[0].startswith("requests[1].user.age: missing")
    assert str(error.value).splitlines()[-1].startswith("requests[1].ads[1].category: missing")


def test_no_request_is_dropped_or_mixed_while_champions_change(
    run: SmallRun, tmp_path: Path
) -> None:
    """Four threads score while six versions come in: every answer is wholly one version's."""
    publish = publisher_to(run, place := LocalStore(tmp_path / "place"))
    publish()
    scorer = Scorer(PlaceOrigin(place))
    ads = [AD, AD | {"category": "category-2"}, AD | {"campaign": None}]
    expected = {1: scorer.score(USER, ads).pctr}
    answers: list[tuple[int, bytes]] = []
    failed: list[BaseException] = []
    stop, busy = threading.Event(), threading.Event()

    def keep_scoring() -> None:
        try:
            while busy.wait() and not stop.is_set():
                scored = scorer.score(USER, ads)
                answers.append((scored.version.number, scored.pctr.tobytes()))
        except BaseException as error:
            failed.append(error)

    def wait_for_answers() -> None:
        seen = len(answers)
        while len(answers) < seen + 20 and not failed:
            stop.wait(0.001)

    threads = [threading.Thread(target=keep_scoring) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(6):
        publish()  # trains: the threads would only be in its way
        busy.set()
        wait_for_answers()
        assert scorer.refresh()
        number = scorer.current.version.number
        expected[number] = scorer.score(USER, ads).pctr
        wait_for_answers()
        busy.clear()
    stop.set()
    busy.set()
    for thread in threads:
        thread.join()
    assert failed == []
    assert {number for number, _ in answers} == set(range(1, 8))
    assert all(bits == expected[number].tobytes() for number, bits in answers)
    order = [number for number, _ in answers]
    assert max(order) == 7
