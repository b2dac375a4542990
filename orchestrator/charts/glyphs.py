"""Texts of a chart in the characters that the font of the pictures has."""

from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any

from matplotlib.font_manager import FontProperties, findfont, get_font

from orchestrator.charts.chart import Bars, Chart

NOTE = " (�: a character that the font lacks)"


def legible(chart: Chart) -> Chart:
    """The chart with � for each character that the font lacks, and a note in its title."""
    missing: set[str] = set()
    found: Chart = _legible(chart, missing)
    return replace(found, title=found.title + NOTE) if missing else found


def _legible(value: Any, missing: set[str]) -> Any:
    """A part of a chart; the characters that the font lacks are added to `missing`."""
    if isinstance(value, str):
        return value if value.isascii() else _text(value, missing)
    if isinstance(value, tuple):
        return tuple(_legible(one, missing) for one in value)
    if not is_dataclass(value) or isinstance(value, type):
        return value
    # The texts of other marks are shown on the page only, under the pointer.
    drawn = [f.name for f in fields(value) if f.name != "texts" or isinstance(value, Bars)]
    return replace(value, **{name: _legible(getattr(value, name), missing) for name in drawn})


def _text(text: str, missing: set[str]) -> str:
    lacking = {one for one in text if ord(one) not in _glyphs() and one.isprintable()}
    missing |= lacking
    return "".join("�" if one in lacking else one for one in text)


@cache
def _glyphs() -> frozenset[int]:
    """The code points of the default font."""
    return frozenset(get_font(findfont(FontProperties())).get_charmap())
