"""The story of real instances that diverged, in words, as a file, and how long it takes."""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from divergence.errors import InputError
from orchestrator.cli import holdfast
from orchestrator.offline.replay import replay
from orchestrator.offline.story import dump_story, load_story, way_to
from orchestrator.offline.story_of import read_story, twin_arm, twin_setting
from orchestrator.offline.story_view import sentences
from orchestrator.storage.open import open_store
from support.configs import small
from support.runs import go_here, records
from support.stories import made_up_story
from trainer.outcome import Outcome, Status
from trainer.setting import Setting


@pytest.fixture(scope="module")
def where(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run in which many instances diverge."""
    folder = tmp_path_factory.mktemp("runs") / "hot"
    go_here(small("search.ranges.eta0={low: 0.1, high: 300}"), folder)
    return folder


def outcomes(where: Path, status: Status) -> list[tuple[int, Outcome]]:
    found = records(where, "production")
    return [(r.cycle, o) for r in found for o in r.outcomes if o.status is status]


def test_a_story_ends_as_the_record_says(where: Path) -> None:
    store, lost = open_store(str(where)), outcomes(where, Status.DIVERGED)
    assert len(lost) > 3
    for cycle, outcome in lost:
        story = read_story(store, "production", cycle, outcome.instance)
        end = outcome.divergence
        assert end is not None
        assert story.end is not None
        last = story.vectors[story.end]
        assert (last.feature, last.value, story.end_norm) == (end.feature, end.value, end.norm)
        assert story.frames[-1] == story.events_done - 1 == end.event
        assert last.norms[-1] == pytest.approx(end.norm, abs=1e-3)
        events = [vector.event for vector in story.vectors]
        assert events == sorted(events)
        for vector in story.vectors:
            at = story.frames.index(vector.event)
            assert [n is not None and n < 5 for n in vector.norms[:at]] == [True] * at
            assert (vector.norms[at] or 0.0) >= 5
            assert all(story.vectors[n].event < vector.event for n in vector.sources)
        assert story.twin.rule == "entropic"
        assert load_story(dump_story(story), "x") == story
        told = " ".join(sentences(story))
        assert f"at event {end.event:,}, when {last.name} reached {end.norm:.3g}." in told


def test_a_made_up_story_in_words() -> None:
    story = made_up_story()
    assert list(sentences(story)) == [
        "creative=xc grew first, at event 100.",
        "By event 150, 2 had grown. Of the 6 vectors that grew, 3 did so in an event with one that "
        "had grown before.",
        "It ended at event 200, when device=xd reached a number that is not finite.",
        "Growth came to it by way of creative=xc, then user=xu.",
        "A vector that had grown before took part in 67% of the 3 later events with a growth, and "
        "in 20% of the events just before those.",
        "With entropic on the same events no vector grew, and the largest norm was 1.25.",
    ]
    assert way_to(story, 3) == [0, 1, 3]
    calm = replace(story, lost="", end=None, twin=replace(story.twin, grown=2, lost="x at event 9"))
    assert list(sentences(calm))[2::2] == [
        "It did not diverge: it trained on all 201 events.",
        "With entropic on the same events 2 vectors grew, and the largest norm was 1.25; on the "
        "complete chunk it diverged too: x at event 9.",
    ]


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.update(end=4),
        lambda data: data.update(end=-1),
        lambda data: data.pop("tau"),
        lambda data: data.update(frames=[1, 2]),
        lambda data: data.update(vectors=[]),
        lambda data: data.update(vectors=[], frames=[]),
        lambda data: data["vectors"][1].update(sources=[1]),  # a circle
        lambda data: data["vectors"][1].update(norms=["x"]),
    ],
)
def test_a_file_that_is_no_story_is_refused(change: Callable[[dict[str, object]], None]) -> None:
    data = json.loads(dump_story(made_up_story()))
    change(data)
    with pytest.raises(InputError, match=r"^a/b.json: not the story of an abort: delete it$"):
        load_story(json.dumps(data).encode(), "a/b.json")


def test_the_twin_has_dual_ascent_with_the_constants_of_the_run() -> None:
    config = small("arms.1.rule={name: entropic, rho: {low: 0.1, high: 0.4}, dual_step: 7}")
    l2, entropic = config.arms
    own = Setting(9.0, 2.0, 0.3, lam=0.1)
    assert twin_arm(config, l2) is entropic
    setting, rule = twin_setting(config, entropic, own, rho0=1.0)
    assert setting == Setting(9.0, 2.0, 0.3, rho=pytest.approx(0.2), dual_step=7.0)
    assert (rule.rho, rule.dual_step) == (setting.rho, 7.0)
    bounded = twin_arm(config, entropic)
    assert bounded.rule.name == "holdfast"
    alone = small("arms=[{name: a, rule: none}]")
    default = twin_arm(alone, alone.arms[0])
    assert default.rule.name == "entropic"
    assert twin_setting(alone, default, own, rho0=2.0)[1].rho == pytest.approx(0.2)


def test_it_takes_at_most_three_times_as_long_as_a_plain_replay(where: Path) -> None:
    store = open_store(str(where))
    lost = sorted(outcomes(where, Status.DIVERGED), key=lambda one: -one[1].events_done)[:3]

    def seconds(work: Callable[..., object]) -> float:
        begin = time.process_time()
        for cycle, outcome in lost:
            work(store, "production", cycle, outcome.instance)
        return time.process_time() - begin

    plain, story = (min(seconds(work) for _ in range(2)) for work in (replay, read_story))
    assert story < 3 * plain


def command(where: Path, cycle: int, instance: int, *options: str) -> Result:
    at = ["--cycle", str(cycle), "--instance", str(instance)]
    return CliRunner().invoke(holdfast, ["replay", str(where), *at, *options])


def test_the_command_writes_a_page_or_prints_the_data(
    where: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    cycle, outcome = outcomes(where, Status.DIVERGED)[-1]
    done = command(where, cycle, outcome.instance, "--story")
    assert done.exit_code == 0, done.output
    name = f"story-production-cycle-{cycle}-instance-{outcome.instance}.html"
    assert done.output.splitlines()[-1] == f"story: {name}"
    assert "With entropic on the same events" in done.output
    page = Path(name).read_text()
    assert f"<h1>production, cycle {cycle}, instance {outcome.instance}</h1>" in page
    assert "A vector grew at the first event after which its ‖v‖∞ was at least 5" in page
    command(where, cycle, outcome.instance, "--story", "--out", "deep/er.html")
    assert Path("deep/er.html").read_text() == page
    told = command(where, cycle, outcome.instance, "--story", "--json").output
    assert load_story(told.encode(), "-").events_done == outcome.events_done
    assert len(list(tmp_path.iterdir())) == 2


def test_mistakes_are_one_line(where: Path, tmp_path: Path) -> None:
    calm = min(outcomes(where, Status.RETAINED), key=lambda one: one[1].setting.eta0)
    for which, options, reason in (
        (calm, ["--story"], "has no story: it did not diverge, and no vector grew to a third of "
         "tau; the largest at its end is "),
        (calm, ["--story", "--out", f"{tmp_path}/"], "has no story"),
        (outcomes(where, Status.DIVERGED)[0], ["--story", "--out", f"{tmp_path}/"],
         "must be a file, not a folder"),
        (calm, ["--out", "x.html"], "it needs --story"),
    ):  # fmt: skip
        refused = command(where, which[0], which[1].instance, *options)
        assert isinstance(refused.exception, InputError)
        assert reason in str(refused.exception)
        assert len(str(refused.exception).splitlines()) == 1
