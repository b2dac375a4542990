import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from divergence.errors import InputError
from orchestrator.journal.record import (
    CorruptError,
    CycleRecord,
    count_outcomes,
    decode,
    encode,
    reproducible_part,
    winning_outcome,
)
from support.records import outcome, record

ASSETS = Path(__file__).parent / "assets"


def test_what_is_written_is_read() -> None:
    again = decode(encode(record()), "r")
    assert encode(again) == encode(record())
    assert math.isnan(again.outcomes[1].logloss)
    assert again.outcomes[1].divergence is not None
    assert again.outcomes[1].divergence.norm == math.inf
    assert again.outcomes[1].divergence.value == "Café"
    assert again.outcomes[0] == record().outcomes[0]
    assert again.search == record().search


@given(
    loss=st.floats(),
    reason=st.text(max_size=20),
    timings=st.dictionaries(st.text(max_size=5), st.floats(), max_size=3),
)
def test_any_number_and_text_survive(loss: float, reason: str, timings: dict[str, float]) -> None:
    from dataclasses import replace

    one = replace(outcome(0), logloss=loss, reason=reason.encode("utf-8", "replace").decode())
    data = encode(record(outcomes=(one,), timings=timings, winner=None))
    assert encode(decode(data, "r")) == data


def test_records_of_schema_1_are_read_for_ever() -> None:
    data = (ASSETS / "cycle-record-1.json").read_bytes()
    assert encode(decode(data, "asset")) == data == encode(record())


def test_a_record_is_canonical_json_that_others_can_read() -> None:
    document = json.loads(encode(record()))
    assert document["record"]["outcomes"][1]["logloss"] == "NaN"
    assert document["record"]["outcomes"][1]["divergence"]["norm"] == "Infinity"
    assert list(document["record"]) == sorted(document["record"])


def test_a_record_torn_at_any_byte_is_noticed() -> None:
    data = encode(record())
    for length in range(len(data)):
        with pytest.raises(CorruptError, match=r"^r: corrupt"):
            decode(data[:length], "r")


@pytest.mark.parametrize("flip", [0x01, 0x20, 0x80])
def test_a_record_altered_at_any_byte_is_noticed(flip: int) -> None:
    data = encode(record())
    for at in range(len(data)):
        altered = data[:at] + bytes([data[at] ^ flip]) + data[at + 1 :]
        with pytest.raises(CorruptError, match=r"^r: corrupt"):
            decode(altered, "r")


@pytest.mark.parametrize("data", [b"[]", b"null", b'{"record":NaN}', b"[" * 5000, b"\xff", b"1\n"])
def test_what_is_no_record_is_noticed(data: bytes) -> None:
    with pytest.raises(CorruptError):
        decode(data, "r")


def test_a_sound_record_of_another_schema_is_not_taken_for_damage() -> None:
    newer = CycleRecord.model_construct(**{**dict(record()), "schema_version": 2})
    with pytest.raises(InputError, match=r"^r: schema_version must be 1, but is 2: use the"):
        decode(encode(newer), "r")


def test_a_sealed_body_that_is_no_record_names_the_field() -> None:
    odd = CycleRecord.model_construct(**{**dict(record()), "winner": "best"})
    with pytest.warns(UserWarning, match="winner"):
        data = encode(odd)
    with pytest.raises(CorruptError, match=r"^r: not a valid cycle record: see the field winner"):
        decode(data, "r")


def test_divergence_alone_decides_the_retained_fraction() -> None:
    statuses = ["retained"] * 3 + ["diverged", "failed", "late"]
    got = count_outcomes(record(outcomes=tuple(outcome(i, s) for i, s in enumerate(statuses))))
    assert (got.launched, got.retained, got.diverged, got.failed, got.late) == (6, 3, 1, 1, 1)
    assert got.retained_fraction == 0.75
    assert count_outcomes(record(outcomes=())).retained_fraction is None


def test_useful_is_retained_and_better_than_a_constant() -> None:
    outcomes = (outcome(0), outcome(1, logloss=0.6), outcome(2, "late"), outcome(3, logloss=0.51))
    assert count_outcomes(record(outcomes=outcomes)).useful == 1


def test_the_champion_is_the_winners_outcome() -> None:
    assert winning_outcome(record()) == record().outcomes[0]
    assert winning_outcome(record(winner=None)) is None


def test_two_runs_of_the_same_bits_differ_in_the_clock_only() -> None:
    other = record(driver="d2", started="2025", timings={"cycle": 9.0})
    assert encode(reproducible_part(other)) == encode(reproducible_part(record()))
    assert encode(reproducible_part(record(seed=6))) != encode(reproducible_part(record()))
