from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from divergence.errors import InputError
from orchestrator.config.file import config_text, load_config, read_config
from orchestrator.config.ranges import Choice, Interval, Multiples
from orchestrator.config.rules import RULES
from orchestrator.config.schema import AdaptiveSampler, RandomSampler, config_hash, feature_spec
from orchestrator.sources.opening import resolve_spec
from orchestrator.validation.errors import mistakes_of, read_as
from orchestrator.validation.strict import Strict
from orchestrator.validation.yaml import dump
from support.configs import MINIMAL, config, mistake_lines
from support.strategies import examples
from trainer.features import Feature

FULL = """
seed: 3
cycles: 96
source: {kind: toy, events: 50}
features:
  user: [age, {name: genres, multi: true, weights: genre_weights}]
  ad: [ad_id]
model: {overlap: 3, alone: 1, tau: 15, expire_after: null, accumulators: {decay: 0.5}}
search:
  instances: 8
  sampler: {kind: adaptive, explore: 0.25, spread: {eta0: 20}, follow: production}
  ranges:
    eta0: {low: 1e-2, high: 3e1}
    alpha: 3
    beta: {low: 0.3, high: 0.9, log: false}
    rho: {k: {choice: [0.1, 0.3, 1]}}
arms:
  - {name: production, rule: {name: l2, lam: 0.0017}}
  - name: entropic
    rule: {name: entropic, rho: {k: 0.1}, dual_step: 10, mu_floor: 0.01}
    ranges: {eta0: {low: 0.1, high: 10}}
    start_from: {arm: production, cycle: 24}
deadline_s: 600
actors: 2
retention: {keep_last: 4, keep_every: 96}
"""


def test_a_full_config_reads_as_meant() -> None:
    full = config(FULL)
    assert full.search.ranges.eta0 == Interval(low=0.01, high=30.0)
    assert full.search.ranges.alpha == Choice(choice=(3.0,))
    assert full.search.ranges.rho == Multiples(k=Choice(choice=(0.1, 0.3, 1.0)))
    assert isinstance(full.search.sampler, AdaptiveSampler)
    assert full.search.sampler.spread.eta0 == 20
    assert full.model.accumulators.decay == 0.5
    assert [arm.first_cycle for arm in full.arms] == [0, 24]
    assert full.features is not None
    assert feature_spec(full.features).user == (
        Feature("age"),
        Feature("genres", multi=True, weights="genre_weights"),
    )


def test_a_section_that_set_has_made_is_blamed_on_it() -> None:
    with pytest.raises(InputError, match=r"^--set serch\.instances=4: serch: unknown key"):
        config(MINIMAL, "serch.instances=4")


@pytest.mark.parametrize("text", [MINIMAL, FULL])
def test_the_printed_config_reads_back_to_the_same(text: str) -> None:
    once = config(text)
    assert config(config_text(once)) == once
    assert config_text(config(config_text(once))) == config_text(once)


def test_assignments_replace_add_and_index() -> None:
    got = config(
        FULL,
        "seed=9",
        "arms.1.rule.mu_floor=1e-3",
        "arms.0.rule=none",
        "search.sampler=random",
        "retention.keep_every=",
    )
    assert (got.seed, got.arms[1].rule.model_dump()["mu_floor"]) == (9, 0.001)
    assert got.arms[0].rule.name == "none"
    assert got.search.sampler == RandomSampler()
    assert got.retention.keep_every is None
    assert config(MINIMAL, "model.tau=10").model.tau == 10


@pytest.mark.parametrize(
    ("assignment", "expected"),
    [
        ("seed", "--set seed: must have the form path.to.key=value"),
        ("a..b=1", "--set a..b=1: must have the form path.to.key=value"),
        ("arms.5.name=x", "--set arms.5.name=x: 5 must be the index of a list of 2 entries"),
        ("source.kind=x", '--set source.kind=x: "kind" cannot be set inside "toy"'),
        ("seed=-1", "--set seed=-1: seed: should be greater than or equal to 0, but is -1"),
        ("seed=[", "--set seed=[:1: not YAML: expected the node content, but found '<stream end>'"),
    ],
)
def test_a_wrong_assignment_is_told_as_it_was_given(assignment: str, expected: str) -> None:
    assert mistake_lines(MINIMAL, assignment) == [expected]


ARMS = "source: toy\narms: [{name: a}]\n"
MISTAKES = [
    ("source: toy\n", "run.yaml: arms: missing: this key is required"),
    ("source: toy\narms: []\n", "run.yaml:2: arms: must have at least one entry, but is empty"),
    ("source: toy\narms: 3\n", "run.yaml:2: arms: must be a list, but is 3"),
    ("arms: [{name: a}]\n", "run.yaml: source: missing: this key is required"),
    (
        "source: {kind: tow}\narms: [{name: a}]\n",
        "run.yaml:1: source: 'kind' must be one of files, follow, python, simulator, toy "
        '(did you mean toy?), but is "tow"',
    ),
    (
        "source: {kind: toy, events: 0}\narms: [{name: a}]\n",
        "run.yaml:1: source.events: should be greater than or equal to 1, but is 0",
    ),
    (
        ARMS + "cyles: 3\n",
        "run.yaml:3: cyles: unknown key (did you mean cycles?); allowed: source, features, seed, "
        "cycles, trainer, model, search, sustain, arms, deadline_s, tries, patience_s, actors, "
        "retention, serve, publish, track",
    ),
    (ARMS + "cycles: ten\n", 'run.yaml:3: cycles: should be a valid integer, but is "ten"'),
    (ARMS + "cycles: 1.5\n", "run.yaml:3: cycles: should be a valid integer, but is 1.5"),
    (ARMS + "seed: true\n", "run.yaml:3: seed: should be a valid integer, but is true"),
    (ARMS + "seed: '1'\n", 'run.yaml:3: seed: should be a valid integer, but is "1"'),
    (ARMS + "cycles: 3.0\n", "run.yaml:3: cycles: should be a valid integer, but is 3.0"),
    (ARMS + "model: {tau: '15'}\n", 'run.yaml:3: model.tau: should be a valid number, but is "15"'),
    (ARMS + "model: 3\n", "run.yaml:3: model: must be a mapping, but is 3"),
    (
        ARMS + "search: {ranges: {eta0: {low: 1, high: 2, log: 1}}}\n",
        "run.yaml:3: search.ranges.eta0.log: should be a valid boolean, but is 1",
    ),
    (ARMS + "model:\n  tau: 0\n", "run.yaml:4: model.tau: should be greater than 0, but is 0"),
    (
        ARMS + "model: {tau: .inf}\n",
        "run.yaml:3: model.tau: should be a finite number, but is Infinity",
    ),
    (
        ARMS + "model: {accumulators: kep}\n",
        'run.yaml:3: model.accumulators: must be keep, reset or {decay: x}, but is "kep"',
    ),
    (
        ARMS + "search: {ranges: {eta0: {low: 3, high: 1}}}\n",
        "run.yaml:3: search.ranges.eta0: low <= high must hold, but got (low=3, high=1)",
    ),
    (
        ARMS + "search: {ranges: {lam: {low: 0, high: 1}}}\n",
        "run.yaml:3: search.ranges.lam: low > 0 must hold on a log scale, "
        "but got (low=0, high=1): set log: false",
    ),
    (
        ARMS + "search: {ranges: {eta0: {choice: [0, 1]}}}\n",
        "run.yaml:3: search.ranges.eta0: every value must be > 0, but is 0.0",
    ),
    (
        ARMS + "search: {ranges: {eta0: {choice: []}}}\n",
        "run.yaml:3: search.ranges.eta0.choice: must have at least one entry, but is empty",
    ),
    (
        ARMS + "search: {ranges: {beta: fast}}\n",
        "run.yaml:3: search.ranges.beta: must be a number, {low, high, log: true} "
        'or {choice: [...]}, but is "fast"',
    ),
    (
        ARMS + "search: {ranges: {lam: -1}}\n",
        "run.yaml:3: search.ranges.lam: must be >= 0 and finite, but is -1",
    ),
    (
        ARMS + "search: {ranges: {rho: {k: {low: 1, high: 2, step: 1}}}}\n",
        "run.yaml:3: search.ranges.rho.k.step: unknown key; allowed: low, high, log",
    ),
    (
        ARMS + "search: {sampler: 3}\n",
        "run.yaml:3: search.sampler: must be one of grid, random, adaptive, "
        "or a mapping with 'kind', but is 3",
    ),
    (
        ARMS + "search: {sampler: {kind: grid, points: 2}, instances: 9}\n",
        "run.yaml:3: search.instances: must be at most 8, the number of grid points, but is 9",
    ),
    (
        ARMS + "search: {sampler: {kind: adaptive, follow: A1}}\n",
        "run.yaml:3: search.sampler.follow: must be one of the arms a (did you mean a?), "
        "but is 'A1'",
    ),
    (
        "source: toy\narms:\n- name: a\n- name: a\n",
        "run.yaml:4: arms.1.name: must be unique, but arms.0 is also 'a'",
    ),
    (
        "source: toy\narms: [{name: ../a}]\n",
        "run.yaml:2: arms.0.name: must be 1 to 64 of A-Z a-z 0-9 . _ - and "
        'start with a letter or digit, but is "../a"',
    ),
    (
        "source: toy\narms: [{name: a, rule: entropc}]\n",
        f"run.yaml:2: arms.0.rule (arm a): 'name' must be one of {', '.join(RULES)} "
        '(did you mean entropic?), but is "entropc"',
    ),
    (
        "source: toy\narms: [{name: a, rule: L2}]\n",
        f"run.yaml:2: arms.0.rule (arm a): 'name' must be one of {', '.join(RULES)} "
        '(did you mean l2?), but is "L2"',
    ),
    (
        "source: {kind: files, path: a, cut: {events: 9}, columns: {g: {splitt: x}}}\n"
        "features: {user: [g], ad: [b]}\narms: [{name: a}]\n",
        "run.yaml:1: source.columns.g.splitt: unknown key (did you mean split?); allowed: column, "
        "bins, log, round, slice, split, optional",
    ),
    (
        "source: toy\narms: [{name: a, rule: {lam: 1}}]\n",
        f"run.yaml:2: arms.0.rule (arm a): needs 'name', one of {', '.join(RULES)}",
    ),
    (
        "source: toy\narms: [{name: a, rule: {name: l2, rho: 1}}]\n",
        "run.yaml:2: arms.0.rule.rho (arm a): unknown key; allowed: name, lam",
    ),
    (
        "source: toy\narms: [{name: a}, {name: b, start_from: {arm: aa, cycle: 3}}]\n",
        "run.yaml:2: arms.1.start_from.arm (arm b): must be one of the arms a, b "
        "(did you mean a?), but is 'aa'",
    ),
    (
        "source: toy\narms: [{name: a, start_from: {arm: a, cycle: 3}}]\n",
        "run.yaml:2: arms.0.start_from.arm (arm a): must be another arm, but 'a' is this one",
    ),
    (
        "source: toy\narms: [{name: a, start_from: {arm: b, cycle: 3}}, {name: b}]\n",
        "run.yaml:2: arms.0.start_from.arm (arm a): must be listed before this arm, but 'b' comes "
        "later",
    ),
    (
        "source: toy\ncycles: 3\narms: [{name: a}, {name: b, start_from: {arm: a, cycle: 3}}]\n",
        "run.yaml:3: arms.1.start_from.cycle (arm b): must be below the run's 3 cycles, but is 3",
    ),
    (
        "source: toy\narms: [{name: a}, {name: b, start_from: {arm: a, cycle: 3}}, "
        "{name: c, start_from: {arm: b, cycle: 3}}]\n",
        "run.yaml:2: arms.2.start_from.cycle (arm c): must be above 3, the first cycle of 'b', "
        "but is 3",
    ),
    (ARMS + "deadline_s: 0\n", "run.yaml:3: deadline_s: should be greater than 0, but is 0"),
    (
        ARMS + "actors: many\n",
        'run.yaml:3: actors: must be auto or an integer >= 1, but is "many"',
    ),
    (
        ARMS + "features: {user: [age], ad: [age]}\n",
        "run.yaml:3: features: column 'age' is used more than once in the features",
    ),
    (
        "- a\n",
        "run.yaml: must be a mapping with the keys source, features, seed, cycles, "
        "trainer, model, search, sustain, arms, deadline_s, tries, patience_s, actors, retention, "
        "serve, publish, track",
    ),
    ("seed: 1\nseed: 2\n", "run.yaml:2: seed: given twice, first on line 1"),
    ("seed: [1\n", "run.yaml:2: not YAML: expected ',' or ']', but got '<stream end>'"),
    ('a: "x\nb: 1\n', "run.yaml:1: not YAML: a quote opens here and never closes"),
    ("a:\n\tb: 1\n", "run.yaml:2: not YAML: a tab cannot indent: use spaces"),
    ("a: *b\n", "run.yaml:1: not YAML: found undefined alias 'b'"),
    ("a: &b [*b]\n", "run.yaml:1: a.0: an alias must not contain itself"),
    ("? [a]\n: 1\n", "run.yaml:1: a key must be a plain string"),
    (
        "seed: !!python/name:os.system x\n",
        "run.yaml:1: not YAML: could not determine a constructor for the tag "
        "'tag:yaml.org,2002:python/name:os.system'",
    ),
    (
        "a: \x00\n",
        "run.yaml: not YAML: unacceptable character #x0000: special characters are not allowed "
        'in "<unicode string>", position 3',
    ),
]


@pytest.mark.parametrize(("text", "expected"), MISTAKES, ids=[e[:60] for _, e in MISTAKES])
def test_each_mistake_is_one_line(text: str, expected: str) -> None:
    assert mistake_lines(text) == [expected]


def test_what_users_take_for_a_kind_of_source_has_a_hint() -> None:
    for kind, hint in (("csv", "(write files)"), ("SQLite", "(write python, or follow a folder")):
        [line] = mistake_lines(f"source: {kind}\narms: [{{name: a}}]\n")
        assert hint in line


def test_a_key_of_a_level_above_has_a_hint() -> None:
    text = """source: {kind: files, path: x.csv, cut: {events: 5}, columns: {a: {missing: [NA]}}}
features: {user: [a, b], ad: [c]}
arms: [{name: a, cycles: 3}]
"""
    missing, cycles = mistake_lines(text)
    key = "run.yaml:1: source.columns.a.missing: unknown key (it belongs beside columns); allowed: "
    assert missing.startswith(key)
    assert "arms.0.cycles (arm a): unknown key (it belongs beside arms); allowed: " in cycles


def test_all_mistakes_come_at_once_in_the_order_of_the_file() -> None:
    text = """
cyles: 3
source: {kind: toy, events: x}
model: {tau: 0}
arms:
  - {name: a, rule: {name: entropic, mu_flor: 1}}
  - {name: a, rule: l2, start_from: {arm: z, cycle: 0}}
"""
    assert [line.split(": ")[:2] for line in mistake_lines(text, "seed=x")] == [
        ["run.yaml:2", "cyles"],
        ["run.yaml:3", "source.events"],
        ["run.yaml:4", "model.tau"],
        ["run.yaml:6", "arms.0.rule.mu_flor (arm a)"],
        ["run.yaml:7", "arms.1.name"],
        ["run.yaml:7", "arms.1.start_from.arm (arm a)"],
        ["run.yaml:7", "arms.1.start_from.cycle (arm a)"],
        ["--set seed=x", "seed"],
    ]


def test_an_unknown_key_in_a_plain_union_is_told_without_what_is_allowed() -> None:
    class Either(Strict):
        part: RandomSampler | AdaptiveSampler

    with pytest.raises(ValidationError) as caught:
        read_as(Either, {"part": {"kind": "random", "x": 1}})
    assert mistakes_of(caught.value)[0] == (("part", "RandomSampler", "x"), "unknown key")


def test_yaml_aliases_and_merges_work() -> None:
    text = """
source: toy
arms:
  - &first {name: a, rule: &dual {name: entropic, dual_step: 3}}
  - {<<: *first, name: b}
  - {name: c, rule: {<<: *dual, dual_step: 1}}
"""
    arms = config(text).arms
    assert [arm.rule.name for arm in arms] == ["entropic"] * 3
    assert arms[2].rule.model_dump()["dual_step"] == {"choice": (1.0,)}


def test_a_file_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    latin = tmp_path / "latin.yaml"
    latin.write_bytes(b"seed: \xff")
    for path, reason in [
        (tmp_path / "none.yaml", "cannot be read: No such file or directory"),
        (tmp_path, "cannot be read: Is a directory"),
        (latin, "must be UTF-8 text, but byte 6 is not"),
    ]:
        with pytest.raises(InputError) as caught:
            load_config(str(path))
        assert str(caught.value) == f"{path}: {reason}"


def test_features_of_the_simulator_are_a_choice_from_its_own() -> None:
    arms = "arms: [{name: a}]\n"
    chosen = config(
        f"source: simulator\nfeatures: {{user: [interests, age], ad: [campaign]}}\n{arms}"
    )
    spec = resolve_spec(chosen.source, feature_spec(chosen.features))
    assert spec.user == (Feature("interests", True, "interest_weights"), Feature("age"))
    assert mistake_lines(
        f"source: simulator\nfeatures: {{user: [agee], ad: [campaign]}}\n{arms}"
    ) == [
        "run.yaml:2: features: user: 'agee' must be one of the source's features age, gender, geo, "
        "device, hour, last_category, interests"
    ]
    files = "source: {kind: files, path: x, cut: {events: 5}}\n" + arms
    assert mistake_lines(files) == [
        "run.yaml: features: must be given: this kind of source does not define its features"
    ]


def test_the_hash_ignores_only_what_does_not_change_the_bits() -> None:
    same = [MINIMAL, MINIMAL + "cycles: 9\n", MINIMAL + "actors: 7\ntries: 1\n"]
    assert len({config_hash(config(text)) for text in same}) == 1
    assert config_hash(config(MINIMAL, "seed=1")) != config_hash(config(MINIMAL))
    assert config_hash(config(MINIMAL, "deadline_s=9")) != config_hash(config(MINIMAL))


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text("ab1.-~:é", max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "kind", "rule", "low", "k", "arm", "x", "choice", "eta0"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)


@settings(max_examples=examples(200))
@given(
    data=st.dictionaries(
        st.sampled_from(["source", "arms", "search", "model", "features", "cycles", "actors"]),
        json_like,
    )
)
def test_no_data_whatever_is_answered_with_a_traceback(data: dict[str, object]) -> None:
    with suppress(InputError):
        read_config(dump(data), "run.yaml")
