"""Dictionaries are numbered as if their texts had just been encoded."""

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.dictionaries import by_appearance

CODES = {"c": 0, "unused": 1, "b": 2, "a": 3, "": 4}
KIND = pa.dictionary(pa.int8(), pa.string())
TEXTS = st.lists(st.sampled_from([None, "", "a", "b", "c"]), max_size=12)


@settings(derandomize=True, deadline=None)
@given(st.lists(TEXTS, max_size=3))
def test_the_numbers_are_those_of_plain_texts(chunks: list[list[str | None]]) -> None:
    parts = [
        pa.DictionaryArray.from_arrays(
            pa.array([None if text is None else CODES[text] for text in texts], pa.int8()),
            pa.array(list(CODES)),
        )
        for texts in chunks
    ]
    plain = pa.array([text for texts in chunks for text in texts], pa.string())
    table = pa.table({"plain": plain, "text": pa.chunked_array(parts, KIND)})
    found = by_appearance(table)
    assert found["plain"].equals(table["plain"])
    assert found["text"].combine_chunks().equals(plain.dictionary_encode())
