"""YAML from strangers: bombs, depth, numbers and characters are one line each."""

import time

import pytest

from divergence.errors import InputError
from orchestrator.validation.yaml import parse

ALIASES = "a0: &a0 [1,1,1,1,1,1,1,1,1]\n" + "".join(
    f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12)
)
MERGES = "a0: &a0 {k: 1, l: 2}\n" + "".join(
    f"a{i}: &a{i} {{<<: [{','.join([f'*a{i - 1}'] * 9)}]}}\n" for i in range(1, 30)
)


def refused(text: str) -> str:
    began = time.process_time()
    with pytest.raises(InputError) as caught:
        parse(text, "x.yaml")
    assert time.process_time() - began < 20
    assert len(str(caught.value).splitlines()) == 1
    assert len(str(caught.value)) < 300
    return str(caught.value)


def test_an_alias_bomb_does_not_explode() -> None:
    assert "aliases expanded" in refused(ALIASES)


def test_a_bomb_of_merges_stays_as_small_as_its_text() -> None:
    assert parse(MERGES, "x.yaml").data["a29"] == {"k": 1, "l": 2}


def test_a_mapping_may_not_consist_of_itself() -> None:
    assert parse("a: &a {<<: *a, b: 1}", "x.yaml").data == {"a": {"b": 1}}
    assert "an alias must not contain itself" in refused("a: &a {b: *a}")


def test_the_first_of_several_merges_wins_and_own_keys_win_over_both() -> None:
    text = "x: &x {a: 1, b: 1, c: 1}\ny: &y {b: 2, d: 2}\nz: {<<: [*y, *x], c: 3}\n"
    assert parse(text, "x.yaml").data["z"] == {"a": 1, "b": 2, "c": 3, "d": 2}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[" * 500 + "]" * 500, "nested more than 64 deep"),
        ("{a: " * 500 + "}" * 500, "nested more than 64 deep"),
        ("- " * 100_000, "nested more than 64 deep"),
        ("a: " + "9" * 5000, "a: a number must have at most 100 characters, but has 5000"),
        ("a: 0x" + "f" * 5000, "a number must have at most"),
        ("a: 1" + ":1" * 5000, "a number must have at most"),
        ("a: !!int x", 'x.yaml:1: a: "x" is not a valid int'),
        ("a: !!bool x", 'a: "x" is not a valid bool'),
        ("a: !!timestamp x", "not a valid timestamp"),
        ('a: "\\ud800"', "a: must be text"),
        ('a: "\\0"', "a: must be text"),
        ('"\\ud800": 1', "a key must be a plain string"),
        ('a: "\\U00110000"', "not YAML"),
        ("a: {<<: 3}", "<< must be a mapping"),
        ("#" * 5_000_000, "must have at most 4000000 characters"),
        ("x" * 1000 + ": !!int x", "xxx...: "),
    ],
)
def test_what_pyyaml_answers_with_a_traceback_is_one_line(text: str, expected: str) -> None:
    assert expected in refused(text)


@pytest.mark.parametrize("value", ["!!int hunter2", "*hunter2", "!hunter2", "'hunter2"])
def test_no_message_shows_a_storage_option(value: str) -> None:
    assert "hunter2" not in refused(f"storage_options: {{secret: {value}}}")
