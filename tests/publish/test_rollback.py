"""Serving goes back to an earlier version in one command, and forward again."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from divergence.errors import InputError
from orchestrator.cli import holdfast
from orchestrator.config.schema import PublishConfig
from orchestrator.publish.follower import Follower
from orchestrator.publish.origin import PlaceOrigin
from orchestrator.publish.publisher import Publisher
from orchestrator.publish.rollback import go_forward, roll_back
from orchestrator.serving.app import App
from orchestrator.serving.scorer import Scorer
from orchestrator.storage.local_store import LocalStore
from support.small_run import TEXT, SmallRun
from trainer.modelfile import save_model


def test_back_and_forward_again(run: SmallRun, tmp_path: Path) -> None:
    place = LocalStore(tmp_path / "place")
    publisher = Publisher(run.config, run.store, place, PublishConfig(to=place.uri))
    follower, bits = Follower(PlaceOrigin(place)), {}
    for number in (1, 2, 3):
        publisher.publish(run.play())
        follower.advance()
        bits[number] = save_model(follower.model)

    def rolled(*options: str) -> tuple[str, bytes]:
        done = CliRunner().invoke(holdfast, ["rollback", place.uri, *options])
        assert done.exit_code == 0, done.output
        assert follower.advance().version is not None
        return done.output, save_model(follower.model)

    text, now = rolled()
    assert "now serves version 2 (cycle 1) as version 4; to go forward again: holdfast" in text
    newer = "a newer champion is published by the run's next cycle, or: holdfast publish RUN "
    assert text.endswith(f"\nafter that, {newer}{place.uri}\n")
    assert now == bits[2]
    assert rolled()[1] == bits[1]  # one more
    with pytest.raises(InputError, match="held at version 1 since a rollback; to go on: holdfast"):
        publisher.publish(run.play())
    assert rolled("--to", "3")[1] == bits[3]
    assert rolled("--to", "1")[1] == bits[1]
    text, now = rolled("--forward")
    assert "now serves version 3 (cycle 2) as version 8\n" in text
    assert text.endswith(f"\n{newer}{place.uri}\n")
    assert now == bits[3]
    assert publisher.publish(run.play()) is not None  # the run goes on
    found = follower.advance().version
    assert found is not None
    assert (found.number, found.cycle) == (9, 4)


def test_health_says_that_a_place_is_held(tmp_path: Path) -> None:
    place = LocalStore(tmp_path / "place")
    run = SmallRun(tmp_path / "run", f"{TEXT}publish: {{to: {place.uri}}}\n")

    def health() -> str:
        done = CliRunner().invoke(holdfast, ["health", run.store.uri])
        return done.output.splitlines()[-1].strip()

    assert health() == f"published    nothing yet to {place.uri}"
    publisher = Publisher(run.config, run.store, place, PublishConfig(to=place.uri))
    for _ in range(2):
        publisher.publish(run.play())
    assert health() == f"published    version 2 (cycle 1) in {place.uri}"
    roll_back(place)
    held = f"{place.uri} is held at version 1 (cycle 0) since a rollback: newer champions are not"
    assert health().startswith(f"published    {held}")
    told = CliRunner().invoke(holdfast, ["health", run.store.uri, "--json"]).output
    assert json.loads(told)["published"]["held"] is True


def test_serving_says_held_and_how_old_the_model_is(run: SmallRun, tmp_path: Path) -> None:
    place = LocalStore(tmp_path / "place")
    publisher = Publisher(run.config, run.store, place, PublishConfig(to=place.uri))
    first, _ = publisher.publish(run.play()), publisher.publish(run.play())
    assert first is not None
    app = App(Scorer(PlaceOrigin(place)), max_age_s=1e-9)

    def health() -> dict[str, Any]:
        app.scorer.refresh()
        found: dict[str, Any] = json.loads(app.answer("GET", "/health").body)
        return found

    assert (health()["status"], health()["held"]) == ("stale", False)
    roll_back(place)
    held = health()
    assert (held["held"], held["status"]) == (True, "ok"), "it was decided to serve an old model"
    assert held["published"] == first.published
    go_forward(place)
    assert (health()["status"], health()["held"]) == ("stale", False)


def test_where_there_is_nothing_to_go_to(run: SmallRun, tmp_path: Path) -> None:
    place = LocalStore(tmp_path / "place")

    def fails(*options: str) -> str:
        with pytest.raises(InputError) as caught:
            holdfast.main(["rollback", place.uri, *options], standalone_mode=False)
        return str(caught.value)

    assert "not a published place" in fails()
    Publisher(run.config, run.store, place, PublishConfig(to=place.uri)).publish(run.play())
    assert "there is no earlier version; the place has 1" in fails()
    assert "there is no version 7; the place has 1" in fails("--to", "7")
    assert "is not held" in fails("--forward")
