"""Publishing: whole versions, never a diverged, torn or older one; followers get the same bits."""

import json
from pathlib import Path

import pytest

from divergence.errors import InputError
from orchestrator.config.file import read_config
from orchestrator.config.schema import PublishConfig
from orchestrator.journal.record import ChampionNorms
from orchestrator.publish.background import BackgroundPublisher
from orchestrator.publish.follower import Follower
from orchestrator.publish.origin import PlaceOrigin, RunOrigin, open_origin
from orchestrator.publish.place import newest_version, read_version, version_numbers, version_path
from orchestrator.publish.publisher import Publisher
from orchestrator.storage.local_store import LocalStore, temporary_path
from orchestrator.storage.store import Store, read
from support.small_run import TEXT, SmallRun
from trainer.modelfile import save_model


def publisher(run: SmallRun, place: Store, **terms: object) -> Publisher:
    take_over = bool(terms.pop("take_over", False))
    config = PublishConfig(to=place.uri, **terms)
    return Publisher(run.config, run.store, place, config, take_over)


@pytest.fixture
def place(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "place")


def test_full_and_deltas_give_the_bits_of_the_latest_full(run: SmallRun, place: Store) -> None:
    """Through expiry (cycle 3 drops values of cycle 0), step by step and all at once."""
    full = LocalStore(Path(place.uri).with_name("full"))
    deltas, wholes = publisher(run, place), publisher(run, full, deltas=False)
    follower, lengths = Follower(PlaceOrigin(place)), set()
    for cycle in range(5):
        record = run.play()
        version, whole = deltas.publish(record), wholes.publish(record)
        assert version is not None
        assert whole is not None
        assert (version.number, version.cycle, len(whole.files)) == (cycle + 1, cycle, 1)
        lengths.add(len(version.files))
        assert follower.advance().version == version
        bits = save_model(run.model)
        assert save_model(follower.model) == bits == read(full, whole.files[0].path)
        late = Follower(PlaceOrigin(place))
        late.advance()
        assert save_model(late.model) == bits
    assert max(lengths) > 1, "no delta was ever published"
    assert follower.advance().version is None


def test_what_is_there_is_not_published_again(run: SmallRun, place: Store) -> None:
    first, second = run.play(), run.play()
    one = publisher(run, place)
    assert one.publish(second) is not None
    assert one.publish(second) is None
    assert one.publish(first) is None, "an older champion"
    stays = second.model_copy(update={"cycle": 2, "winner": None, "outcomes": ()})
    assert one.publish(stays) is None, "the champion stayed"
    assert publisher(run, place).publish(first) is None, "nor by a process that starts anew"
    assert version_numbers(place) == [1]


def test_a_killed_publisher_leaves_no_files_for_good(run: SmallRun, place: LocalStore) -> None:
    publisher(run, place).publish(run.play())
    for name in ("models/cycle-000001-0123456789ab.safetensors", "versions/00000002.json"):
        temporary_path(place.root / name).write_bytes(b"half of it")
    publisher(run, place)
    assert not [*place.root.glob("*/.*")]


@pytest.mark.parametrize("size", [15.0, float("inf"), float("nan")])
def test_a_diverged_champion_is_not_published(run: SmallRun, place: Store, size: float) -> None:
    record = run.play().model_copy(update={"norms": ChampionNorms(size, size, size)})
    with pytest.raises(InputError, match="largest entry must be below tau = 15, but is"):
        publisher(run, place).publish(record)
    assert newest_version(place) is None


def test_a_torn_model_is_not_published(run: SmallRun, place: Store) -> None:
    record = run.play()
    file = Path(run.store.uri) / record.model[0].path
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(InputError, match="corrupt"):
        publisher(run, place).publish(record)
    file.unlink()
    with pytest.raises(InputError, match="missing"):
        publisher(run, place).publish(record)
    assert newest_version(place) is None


def test_a_place_belongs_to_one_line_until_it_is_taken_over(
    run: SmallRun, place: Store, tmp_path: Path
) -> None:
    mine = publisher(run, place)
    mine.publish(run.play())
    other = SmallRun(tmp_path / "other", TEXT.replace("seed: 3", "seed: 4"))
    record = other.play()
    names = rf"/production \({run.store.uri}\), not of \w+/production \({other.store.uri}\): "
    with pytest.raises(InputError, match=rf"holds the models of \w+{names}.*--take-over"):
        publisher(other, place)
    taken = publisher(other, place, take_over=True).publish(record)
    assert taken is not None
    assert taken.number == 2
    with pytest.raises(InputError, match="has taken over this place"):
        mine.publish(run.play())
    follower = Follower(PlaceOrigin(place))
    follower.advance()
    assert save_model(follower.model) == save_model(other.model)


def test_of_two_publishers_at_once_one_is_refused(run: SmallRun, place: Store) -> None:
    one, two = publisher(run, place), publisher(run, place)
    record = run.play()
    one.publish(record)
    newest = version_path(1)
    with pytest.raises(InputError, match="already exists with other contents"):
        place.create(newest, b"another's")
    assert two.publish(record) is None
    assert version_numbers(place) == [1]


def test_old_versions_and_their_files_go(run: SmallRun, place: Store) -> None:
    one = publisher(run, place, keep_last=2)
    for _ in range(5):
        one.publish(run.play())
    assert version_numbers(place) == [4, 5]
    used = {file.path for n in (4, 5) for file in read_version(place, n).files}
    assert {f"models/{name}" for name in place.names("models")} == used


def test_a_follower_passes_over_what_is_torn(run: SmallRun, place: Store) -> None:
    one = publisher(run, place)
    one.publish(run.play())
    follower = Follower(PlaceOrigin(place))
    assert follower.advance().version is not None
    held = save_model(follower.model)
    second = one.publish(run.play())
    assert second is not None
    file = Path(place.uri) / second.files[-1].path
    sound = file.read_bytes()
    file.write_bytes(sound[:100] + b"\0" + sound[101:])
    (Path(place.uri) / version_path(3)).write_bytes(b'{"record":{"half')
    found = follower.advance()
    assert found.version is None
    assert [fault.rpartition("/")[2].split(":")[0] for fault in found.faults] == [
        "00000003.json",
        file.name,
    ]
    assert save_model(follower.model) == held
    file.write_bytes(sound)
    assert follower.advance().version == second
    assert save_model(follower.model) == save_model(run.model)


def test_a_run_can_be_followed_without_a_place(run: SmallRun) -> None:
    run.play()
    follower = Follower(RunOrigin(run.store, None))
    run.play()
    found = follower.advance().version
    assert found is not None
    assert (found.number, found.cycle) == (1, 1)
    assert save_model(follower.model) == save_model(run.model)
    with pytest.raises(InputError, match="--arm x: must be one of production"):
        open_origin(run.store.uri, "x")


def test_what_is_neither_place_nor_run_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"neither a run .* nor a published place"):
        open_origin(str(tmp_path))


def test_a_version_of_a_newer_holdfast_is_told_apart_from_damage(
    run: SmallRun, place: LocalStore
) -> None:
    from orchestrator.storage.checksummed import dumps, loads

    publisher(run, place).publish(run.play())
    path = Path(place.uri) / version_path(1)
    body = loads(path.read_bytes(), "v") | {"schema": 2}
    path.write_bytes(dumps(body))
    with pytest.raises(InputError, match="schema must be 1, but is 2"):
        newest_version(place)
    assert json.loads(path.read_bytes())["record"]["schema"] == 2


def test_a_run_publishes_beside_its_training(run: SmallRun, place: Store) -> None:
    said: list[str] = []
    with BackgroundPublisher(publisher(run, place), said.append) as background:
        background.offer([run.play()])
        background.offer([run.play()])
        background.offer([run.play()])
    newest = newest_version(place)
    assert newest is not None
    assert newest.cycle == 2
    assert said == []


def test_a_place_that_fails_is_told_and_does_not_end_the_run(
    run: SmallRun, place: LocalStore
) -> None:
    said: list[str] = []
    with BackgroundPublisher(publisher(run, place), said.append) as background:
        Path(place.uri).write_text("in the way")
        background.offer([run.play()])
    assert len(said) == 1
    assert said[0].startswith("cycle 0 was not published: ")


def test_where_champions_go_is_no_matter_of_identity_but_their_arm_must_be_there() -> None:
    from orchestrator.config.file import read_config
    from orchestrator.config.schema import config_hash

    plain = read_config(TEXT, "run.yaml")
    published = read_config(TEXT + "publish: {to: /place, arm: production}\n", "run.yaml")
    assert config_hash(plain) == config_hash(published)
    with pytest.raises(InputError, match=r"publish\.arm: must be one of the arms production"):
        read_config(TEXT + "publish: {to: /place, arm: prod}\n", "run.yaml")


def test_the_commands_publish_and_export(
    run: SmallRun, place: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    from orchestrator import cli

    def holdfast(*arguments: str) -> int:
        monkeypatch.setattr(sys, "argv", ["holdfast", *arguments])
        try:
            cli.main()
        except SystemExit as end:
            return int(end.code or 0)
        return 0

    assert holdfast("publish", run.store.uri, place.uri) == 2, "no champion yet"
    run.play()
    assert holdfast("publish", run.store.uri, place.uri, "--arm", "x") == 2
    assert holdfast("publish", run.store.uri, place.uri, "--full") == 0
    assert version_numbers(place) == [1]
    out = tmp_path / "out"
    assert holdfast("export", place.uri, "--as", "parquet", "--out", str(out)) == 0
    assert json.loads((out / "model.json").read_text())["version"] == 1
    assert holdfast("export", place.uri, "--as", "vespa", "--out", str(out)) == 2
    assert holdfast("serve", str(tmp_path / "nowhere")) == 2


def test_a_run_s_own_folder_is_no_place(tmp_path: Path) -> None:
    config = read_config("source: simulator\narms: [{name: a}]\n", "run.yaml")
    run = LocalStore(tmp_path)
    with pytest.raises(InputError, match="is the run folder itself"):
        Publisher(config, run, run, PublishConfig(to=str(tmp_path)))
