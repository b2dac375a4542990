"""The checksum of events sees what they are, not how Arrow stores them."""

import pyarrow as pa
import pytest

from orchestrator.sources.digest import digest_of

COLUMNS = {
    "click": pa.array([0, 1, 0, 1], pa.uint8()),
    "time": pa.array([1, 2, None, 4], pa.timestamp("us", "UTC")),
    "age": pa.array(["ab", "c", "", None]),
    "genres": pa.array([["a"], [], None, ["b", "c"]]),
    "topics": pa.array([[("x", 0.5)], [], None, [("y", 1.0)]], pa.map_(pa.string(), pa.float64())),
}
TABLE = pa.table(COLUMNS)


def test_pieces_slices_and_dictionaries_do_not_count() -> None:
    padded = pa.concat_tables([TABLE, TABLE, TABLE])
    assert digest_of(padded.slice(4, 4)) == digest_of(TABLE)
    assert digest_of(pa.concat_tables([TABLE.slice(0, 1), TABLE.slice(1)])) == digest_of(TABLE)
    encoded = TABLE.set_column(2, "age", TABLE["age"].dictionary_encode())
    assert digest_of(encoded) == digest_of(TABLE)
    assert digest_of(TABLE.slice(0, 0)) == digest_of(padded.slice(2, 0))


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("click", [0, 1, 1, 1]),
        ("time", [1, 2, 0, 4]),
        ("age", ["a", "bc", "", None]),
        ("age", ["ab", "c", None, ""]),
        ("genres", [["a"], None, [], ["b", "c"]]),
        ("genres", [["a"], [], None, ["b"]]),
        ("topics", [[("x", 0.5)], [], None, [("y", 2.0)]]),
    ],
)
def test_every_value_counts(name: str, values: list[object]) -> None:
    at = TABLE.column_names.index(name)
    other = TABLE.set_column(at, name, pa.array(values, TABLE[name].type))
    assert digest_of(other) != digest_of(TABLE)
