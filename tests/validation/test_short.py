"""Values in error messages: short, without credentials, and quick for whatever is sent."""

import time

import pytest

from orchestrator.validation.errors import did_you_mean, short


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("a", '"a"'),
        ({"a": [1, None, 2.5, True]}, '{"a": [1, null, 2.5, true]}'),
        (list(range(100)), "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16..."),
        ("s3://me:hunter2@bucket/x", '"s3://bucket/x"'),
        (["s3://me:hunter2@b", "s3://b?sig=hunter2"], '["s3://b", "s3://b"]'),
        (["s3://me:hunter2@b"] + [1] * 100, '["s3://b", ' + "1, " * 15 + "1..."),
        ("http://me:" + "hunter2" * 1000 + "@host", '"http://...'),
        ([10**5000], "a list that is too large to show"),
    ],
)
def test_a_value_is_shown_in_sixty_characters(value: object, shown: str) -> None:
    assert short(value) == shown
    assert len(shown) <= 60


NESTED: list[object] = []
for _ in range(900):
    NESTED = [NESTED, 1]


@pytest.mark.parametrize(
    "value",
    [[1e9] * 2_000_000, [[]] * 2_000_000, {str(i): i for i in range(500_000)}, "://" * 600_000,
     ["s3://a:"] * 600_000, "s3://a:" * 300_000 + "@", NESTED],
    ids=["floats", "lists", "object", "slashes", "URIs", "one URI", "nested"],
)  # fmt: skip
def test_a_large_value_takes_no_time(value: object) -> None:
    began = time.thread_time()
    assert short(value).endswith("...")
    assert time.thread_time() - began < 0.1


def test_a_long_name_is_compared_in_no_time() -> None:
    began = time.thread_time()
    assert did_you_mean("a" * 2_000_000, {"age": 1}) == ""
    assert time.thread_time() - began < 0.1
