import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.charts.chart import Axis, Bars, Chart, Panel, numbers, span_of
from orchestrator.charts.glyphs import legible
from orchestrator.charts.picture import Layout, drawn
from orchestrator.report.terminal import sparkline


def test_an_outlier_does_not_stretch_a_scale() -> None:
    calm = np.linspace(1, 2, 100)
    low, high = span_of([np.append(calm, [1e30, -1e30, np.inf, np.nan])])
    assert 0 < low < 1
    assert 2 < high < 3


def test_without_outliers_everything_is_seen() -> None:
    low, high = span_of([[1, 2, 3], [4.0]], include=[10])
    assert low < 1
    assert high > 10


def test_a_log_scale_leaves_out_what_it_cannot_show() -> None:
    low, high = span_of([[0.0, -1.0, 0.1, 10.0]], log=True)
    assert 0.05 < low < 0.1
    assert 10 < high < 20


@given(
    st.lists(st.floats(), max_size=30), st.booleans(), st.lists(st.floats(1e-3, 1e3), max_size=2)
)
def test_limits_are_always_fit_to_draw(values: list[float], log: bool, seen: list[float]) -> None:
    low, high = span_of([values], log, seen)
    assert low < high
    assert np.isfinite([low, high]).all()
    assert not log or low > 0


def test_a_sparkline_shows_rise_gap_and_bounds() -> None:
    assert sparkline(np.array([0.0, 0.5, 1.0, np.nan]), 0, 1) == "▁▅█ "
    assert sparkline(np.arange(100.0), 0, 99, width=8) == "▁▂▃▄▅▆▇█"
    assert sparkline(np.array([-5.0, 9.0]), 0, 1) == "▁█"
    assert sparkline(np.zeros(0), 0, 1) == ""


def test_characters_that_the_font_lacks_are_marked_without_a_warning() -> None:
    bars = Bars("", 0, numbers([1.0]), ("臺北 50%",))
    panel = Panel("é", Axis("", 0.0, 1.0), Axis("", -0.5, 0.5, names=("臺北",)), (bars,))
    chart = Chart("stream", "mine", "", (panel,))
    assert drawn(chart, "png", Layout(columns=1, width=4.0, annotated=True))  # warnings are errors
    shown = legible(chart)
    assert shown.title == "mine (�: a character that the font lacks)"
    assert shown.panels[0].title == "é"
    assert shown.panels[0].y.names == ("��",)
    assert legible(shown).title == shown.title
