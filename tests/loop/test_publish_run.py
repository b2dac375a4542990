"""A real run publishes its champions, and goes on with it after a stop."""

from pathlib import Path

from loops import Heard, records, small

from orchestrator.line import read_model
from orchestrator.publish.background import publishing
from orchestrator.publish.follower import Follower
from orchestrator.publish.origin import open_origin
from orchestrator.publish.place import newest_version
from orchestrator.run import run
from orchestrator.run_folder import prepare
from orchestrator.store import open_store
from trainer.modelfile import save_model


def go_on(folder: Path, cycles: int) -> Heard:
    place = folder / "place"
    config = small(f"cycles={cycles}", f"publish={{to: {place}, arm: entropic}}")
    store, heard = open_store(str(folder / "run")), Heard()
    start = prepare(store, config)
    with publishing(heard, config, store, start.records.values()) as view:
        run(config, store, start, view, 2)
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
