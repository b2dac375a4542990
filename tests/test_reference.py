"""The reference is what the code says."""

from orchestrator.report.frames import CYCLES, INSTANCES, LINES
from scripts.reference import COLUMNS, PAGE, page, undocumented


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "run: python -m scripts.reference"


def test_every_key_and_every_column_has_a_sentence() -> None:
    assert undocumented() == []
    assert set(COLUMNS) == {*CYCLES, *INSTANCES, *LINES}
