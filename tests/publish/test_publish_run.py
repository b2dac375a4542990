"""A real run publishes its champions, and goes on with it after a stop."""

from pathlib import Path

import pytest

from orchestrator.config.schema import PublishConfig
from orchestrator.journal.models import read_model
from orchestrator.journal.run_folder import prepare
from orchestrator.loop.run import run
from orchestrator.pool.local_pool import LocalPool
from orchestrator.publish.background import BackgroundPublisher, open_publisher
from orchestrator.publish.follower import Follower
from orchestrator.publish.origin import open_origin
from orchestrator.publish.place import newest_version, version_numbers, version_path
from orchestrator.publish.publisher import Publisher
from orchestrator.storage.open import open_store
from orchestrator.storage.store import ConflictError
from support.configs import small
from support.runs import Heard, go_here, records
from trainer.modelfile import save_model

pytestmark = pytest.mark.slow


def go_on(folder: Path, cycles: int) -> Heard:
    place = folder / "place"
    config = small(f"cycles={cycles}", f"publish={{to: {place}, arm: entropic}}")
    store, heard = open_store(str(folder / "run")), Heard()
    start = prepare(store, config)
    assert config.publish is not None
    publisher = open_publisher(config, config.publish, store)
    with BackgroundPublisher(publisher, heard.say) as background:
        background.offer(start.records.values())
        run(config, store, start, [heard.show, background.offer], LocalPool)
    return heard


def test_what_is_committed_is_published(tmp_path: Path) -> None:
    follower = None
    for cycles in (2, 4):
        heard = go_on(tmp_path, cycles)
        assert heard.messages == []
        newest = newest_version(open_store(str(tmp_path / "place")))
        assert newest is not None
        assert newest.cycle == cycles - 1
        follower = follower or Follower(open_origin(str(tmp_path / "place")))
        assert follower.advance().version == newest
        record = records(tmp_path / "run", "entropic")[-1]
        model = read_model(open_store(str(tmp_path / "run")), record.model, follower.model.config)
        assert save_model(follower.model) == save_model(model)


def test_an_object_store_is_a_place(bucket: str, tmp_path: Path) -> None:
    config = small("cycles=3")
    go_here(config, tmp_path)
    run_store, place = open_store(str(tmp_path)), open_store(bucket)
    publisher = Publisher(config, run_store, place, PublishConfig(to=bucket, keep_last=2))
    made = records(tmp_path, "production")
    first = publisher.publish(made[0])
    follower = Follower(open_origin(bucket))
    assert follower.advance().version == first
    for record in made[1:]:
        assert publisher.publish(record) is not None
    assert version_numbers(place) == [2, 3]
    assert follower.advance().version == newest_version(place)
    model = read_model(run_store, made[-1].model, follower.model.config)
    assert save_model(follower.model) == save_model(model)
    with pytest.raises(ConflictError):
        place.create(version_path(3), b"another's")
