"""Arms of two runs over the same events."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from divergence.errors import InputError
from orchestrator.cli import holdfast
from orchestrator.config.schema import FeaturesConfig, RunConfig
from orchestrator.notebook import open_run
from orchestrator.report.advice import Advice
from orchestrator.report.decision import Decision, decisions
from orchestrator.report.load import Run
from orchestrator.report.sides import study_of
from orchestrator.storage.open import open_store
from support.configs import simulated
from support.made_up_runs import made_up_records, write_run

OLD, NEW = "[{name: old, rule: decay}]", "[{name: new, rule: clippy}]"
BOTH = "[{name: old, rule: decay}, {name: new, rule: clippy}]"

OWN = "[{name: old, rule: decay}, {name: new, rule: max_norm}]"


def made_up(
    name: str, arms: str, lift: float = 0.0, cycles: range = range(60), stream: str = "market"
) -> Run:
    given = simulated(arms)
    made = made_up_records(given, cycles.stop, lift={"new": lift}, stream=stream)
    records = {
        arm.name: tuple(r for r in made if r.arm == arm.name and r.cycle in cycles)
        for arm in given.arms
    }
    return Run(name, f"/runs/{name}", given, records, ())


def decided(*runs: Run, baseline: str | None = None, challenger: str | None = None) -> Decision:
    [found] = decisions(study_of(runs, baseline, challenger))
    return found


def test_runs_of_one_arm_over_the_same_events_have_a_decision() -> None:
    first, second = made_up("a", OLD), made_up("b", NEW, lift=2.0)
    found = decided(first, second)
    assert (found.run, found.headline) == ("a and b", "Switch to b:new")
    assert (found.baseline, found.cycles, found.left_out) == ("a:old", 60, 0)
    publish = "Next: `holdfast publish /runs/b PLACE --arm new` gives its champion to serving."
    assert found.next_step == publish
    other = decided(second, first)
    assert (other.headline, other.next_step) == ("Stay with b:new", "Next: keep b:new.")


@pytest.mark.parametrize("name", ["b:new", "/runs/b:new", "/runs/b/:new", "new"])
def test_an_arm_is_named_with_its_run(name: str) -> None:
    runs = made_up("a", OLD), made_up("b", NEW, lift=2.0)
    assert decided(*runs, challenger=name).headline == "Switch to b:new"


def test_any_two_arms_of_any_two_runs() -> None:
    runs = made_up("a", BOTH), made_up("b", BOTH, lift=2.0)
    assert decided(*runs, baseline="a:new", challenger="b:new").advice is Advice.SWITCH
    assert decided(*runs, baseline="b:new", challenger="a:old").advice is Advice.STAY
    found = decided(*runs, baseline="a:old")
    assert (found.challenger, found.others) == ("b:new", ("b:old",))
    inside = decisions(study_of(runs, "b:old", "b:new"))
    assert [(one.run, one.challenger) for one in inside] == [("b", "new"), ("a", "new")]


def test_the_comparison_of_two_runs_is_first() -> None:
    found = decisions(study_of((made_up("a", BOTH), made_up("b", OWN, lift=2.0)), None, None))
    assert [one.run for one in found] == ["a and b", "a", "b"]


def test_repeats_with_other_seeds_are_not_compared() -> None:
    first = made_up("a", BOTH)
    again = replace(first, name="b", config=first.config.model_copy(update={"seed": 7}))
    assert [one.run for one in decisions(study_of((first, again), None, None))] == ["a", "b"]


def test_chunks_are_matched_by_their_events() -> None:
    later = made_up("b", NEW, lift=2.0, cycles=range(20, 60))
    moved = tuple(r.model_copy(update={"cycle": r.cycle - 20}) for r in later.records["new"])
    found = decided(made_up("a", OLD), replace(later, records={"new": moved}))
    assert (found.cycles, found.left_out, found.advice) == (40, 20, Advice.SWITCH)
    assert "20 cycles with events of one run only are left out" in found.basis


def test_other_columns_of_the_same_events_are_compared_by_origin() -> None:
    first, other = made_up("a", OLD), made_up("b", NEW, lift=2.0, stream="with one more feature")
    first, other = (replace(one, config=_of_files(one.config, "age")) for one in (first, other))
    assert decisions(study_of((first, other), None, None)) == ()
    more = replace(other, config=_of_files(other.config, "age, gender"))
    assert decided(first, more).headline == "Switch to b:new"


def test_events_that_the_first_model_has_seen_do_not_count() -> None:
    first = made_up("a", OLD)
    start = "[{name: new, rule: clippy, start_from: {run: /runs/a, cycle: 19}}]"
    found = decided(first, made_up("b", start, lift=2.0))
    assert (found.cycles, found.left_out, found.may_have_seen) == (40, 20, None)
    newest = decided(first, made_up("b", start.replace(", cycle: 19", ""), lift=2.0))
    assert "b:new began with a champion that may have seen these events" in newest.basis
    last = made_up("b", start.replace("19", "59"), lift=2.0)
    with pytest.raises(InputError, match=r"^a and b have only events in common that the first"):
        decided(first, last, challenger="b:new")


def test_other_events_are_refused_where_they_were_asked_for() -> None:
    runs = made_up("a", OLD), made_up("b", NEW, stream="another market")
    assert decisions(study_of(runs, None, None)) == ()
    with pytest.raises(InputError, match="a and b did not train on the same events") as refused:
        decided(*runs, challenger="b:new")
    assert r"a begins with simulator[0] (20,000 events, 400 clicks)" in str(refused.value)


def test_the_refusal_names_the_run_that_was_asked_for() -> None:
    runs = made_up("a", OLD), made_up("b", NEW), made_up("c", NEW, stream="another market")
    with pytest.raises(InputError, match=r"^a and c did not train on the same events"):
        decided(*runs, baseline="a:old", challenger="c:new")
    none = replace(runs[1], records={"new": ()})
    with pytest.raises(InputError, match=r"^a and b did not .* b begins with no cycle"):
        decided(runs[0], none, baseline="a:old", challenger="b:new")


def test_a_name_that_is_not_there() -> None:
    runs = made_up("a", OLD), made_up("b", NEW)
    with pytest.raises(InputError, match=r"b has no arm named 'old'; its arms are \['new'\]"):
        study_of(runs, None, "b:old")
    with pytest.raises(InputError, match="'c' is not one of the runs"):
        study_of(runs, None, "c:old")


def test_terminal_page_json_and_notebook_show_it(tmp_path: Path) -> None:
    for name, arms, lift in (("a", OLD, 0.0), ("b", NEW, 2.0)):
        given = simulated(arms)
        made = made_up_records(given, 40, lift={"new": lift})
        write_run(open_store(str(tmp_path / name)), given, made)
    runs = [str(tmp_path / name) for name in "ab"]

    def shown(*options: str) -> Result:
        arguments = ["report", *runs, "--out", str(tmp_path / "out"), *options]
        return CliRunner().invoke(holdfast, arguments, catch_exceptions=False)

    assert "Switch to b:new" in shown("--challenger", f"{runs[1]}:new").output
    assert "<b>Switch to b:new</b>" in (tmp_path / "out" / "report.html").read_text()
    [found] = json.loads(shown("--json").output)["decisions"]
    assert (found["baseline"], found["challenger"]) == ("a:old", "b:new")
    assert repr(open_run(*runs, challenger="b:new").advice).startswith("a and b: Switch to b:new")


def _of_files(given: RunConfig, user: str) -> RunConfig:
    features = FeaturesConfig.model_validate({"user": user.split(", "), "ad": ["campaign"]})
    return given.model_copy(update={"features": features})
