"""Numbers that no run can want are refused, each in one line of bounded length."""

import pytest

from divergence.errors import InputError
from orchestrator.config.file import read_config

FILES = """
source: {kind: files, path: x.csv, cut: {events: 5}}
features: {user: [a], ad: [b]}
arms: [{name: a, rule: entropic}, {name: b, rule: l2}]
"""
LIST = ", ".join(map(str, range(1, 1000)))


@pytest.mark.parametrize(
    ("assignment", "field"),
    [
        ("search.instances=1000000000000", "search.instances"),
        ("search.sampler={kind: grid, points: 99999999999}", "search.sampler.points"),
        ("model.init_std=1e300", "model.init_std"),
        ("model.tau=1e300", "model.tau"),
        ("model.overlap=99999999999", "model.overlap"),
        ("cycles=99999999999999999999", "cycles"),
        ("deadline_s=1e300", "deadline_s"),
        ("patience_s=1e13", "patience_s"),
        ("actors=99999999999", "actors"),
        ("retention.keep_last=99999999999999999999", "retention.keep_last"),
        ("search.ranges.eta0=" + "9" * 400, "search.ranges.eta0"),
        ("search.ranges.eta0=" + "9" * 90, "search.ranges.eta0"),
        ("search.ranges.eta0={low: 1, high: " + "9" * 90 + "}", "search.ranges.eta0.high"),
        ("search.ranges.eta0={low: 1e-320, high: 1}", "search.ranges.eta0"),
        ("arms.0.rule={name: entropic, mu_ceiling: 1e300}", "arms.0.rule.mu_ceiling"),
        ("source.cut={minutes: 1e-9}", "source.cut.minutes"),
        ("source.cut={minutes: 1e13}", "source.cut.minutes"),
        ("source.columns.a={slice: [0, 99999999999999999999]}", "source.columns.a.slice"),
        ("source.csv.quote=é", "source.csv.quote"),
        (f"sustain={{eta0: [{LIST}], alpha: [{LIST}], beta: [{LIST}]}}", "sustain"),
        ("arms.0.name=" + "a" * 10_000, "arms.0.name"),
        ("a" * 10_000 + "=1", "aaa"),
        ("9" * 5000 + "=1", "999"),
        (".".join("a" * 5000) + "=1", "must have the form"),
        ("\udcff=1", "must have the form"),
        ("seed=!!int x", "seed"),
        ("seed=" + "[" * 500, "nested more than 64 deep"),
    ],
)
def test_a_value_beyond_its_limit_is_one_short_line(assignment: str, field: str) -> None:
    with pytest.raises(InputError) as caught:
        read_config(FILES, "run.yaml", (assignment,))
    (line,) = str(caught.value).splitlines()
    assert field in line
    assert len(line) < 600


def test_arms_that_differ_only_in_case_are_refused() -> None:
    with pytest.raises(InputError) as caught:
        read_config(FILES, "run.yaml", ("arms.1.name=A",))
    assert str(caught.value) == (
        "--set arms.1.name=A: arms.1.name: must differ in more than case from arms.0, 'a': some "
        "file systems ignore case"
    )


def test_only_the_first_hundred_mistakes_are_listed() -> None:
    text = FILES + "".join(f"unknown{i}: 1\n" for i in range(1000))
    with pytest.raises(InputError) as caught:
        read_config(text, "run.yaml")
    lines = str(caught.value).splitlines()
    assert len(lines) == 101
    assert lines[-1] == "run.yaml: and 900 more mistakes"
