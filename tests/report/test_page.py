"""The page in a real browser: drawn, pointed at, zoomed, sorted, narrow, dark, printed."""

import base64
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

from orchestrator.report.aborts import load_aborts
from orchestrator.report.load import load_runs
from orchestrator.report.write import compute, parquet, write
from orchestrator.storage.open import open_store
from orchestrator.storage.output import Output
from support.browser import chromium, emulate
from support.configs import simulated
from support.made_up_runs import made_up_records, write_run
from trainer.outcome import Divergence, Outcome, Status

pytestmark = pytest.mark.slow

NASTY = "</script><script>document.title='taken'</script><img src=x onerror=\"document.title='x'\">"
ARMS = """[{name: production, rule: l2}, {name: entropic, rule: entropic,
    start_from: {arm: production, cycle: 8}}, {name: euclidean, rule: euclidean}]"""


def all_lost(outcomes: tuple[Outcome, ...]) -> tuple[Outcome, ...]:
    """A first cycle that is far from the others, as with a model that has learned nothing."""
    lost = Divergence(5, "age", "x", 20.0)
    return (
        tuple(replace(one, status=Status.DIVERGED, divergence=lost) for one in outcomes[:-2])
        + (outcomes[-2:])
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of a run whose texts would like to be executed, and whose norms are wild."""
    import pandas as pd

    folder = tmp_path_factory.mktemp("runs") / f"{NASTY.replace('/', '')}"
    given = simulated(ARMS)
    made = made_up_records(given, 60, loss={"production": 0.2})
    wild = made[90].norms
    assert wild is not None
    made[90] = made[90].model_copy(update={"norms": replace(wild, max_inf=1e12)})
    made[0] = made[0].model_copy(update={"outcomes": all_lost(made[0].outcomes)})
    lost = [(i, r, o) for i, r in enumerate(made) for o in r.outcomes if o.divergence is not None]
    at, record, outcome = lost[0]
    assert outcome.divergence is not None
    worse = replace(outcome, divergence=replace(outcome.divergence, feature=NASTY, value=NASTY))
    outcomes = tuple(worse if o is outcome else o for o in record.outcomes)
    made[at] = record.model_copy(update={"outcomes": outcomes})
    write_run(open_store(str(folder)), given, made)
    vectors = pd.DataFrame(
        {"feature": "age", "value": [NASTY, "b"] * 50, "norm": range(100), "updates": range(100)}
    )
    output = Output(str(folder))
    run = load_runs([str(folder)]).runs
    output.put(f"aborts/{run[0].name}/production-cycle-000003-instance-1.parquet", parquet(vectors))
    loaded = load_runs([str(folder)])
    write(compute(loaded, load_aborts(open_store(str(folder)), loaded.runs)), output)
    return folder


@pytest.fixture(scope="module")
def open_browser(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with chromium(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture
def page(open_browser: Any, folder: Path) -> Any:
    emulate(open_browser, 1200)
    open_browser.get((folder / "report.html").as_uri())
    return open_browser


def panel(page: Any, chart: str, number: int = 0) -> WebElement:
    found: list[WebElement] = page.find_elements(By.CSS_SELECTOR, f"#chart-{chart} .panel svg")
    page.execute_script(
        "arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", found[number]
    )
    return found[number]


def tip(page: Any) -> str:
    return str(page.execute_script("const t = document.getElementById('tip'); "
                                   "return t.hidden ? '' : t.textContent"))  # fmt: skip


def test_everything_is_drawn_without_an_error_or_a_request(page: Any) -> None:
    problems = [e for e in page.get_log("browser") if e["level"] in ("SEVERE", "WARNING")]
    assert problems == []
    sent = [json.loads(e["message"])["message"] for e in page.get_log("performance")]
    urls = [
        m["params"]["request"]["url"] for m in sent if m["method"] == "Network.requestWillBeSent"
    ]
    strange = [url for url in urls if not url.endswith("/report.html")]
    own = ("chrome://", "chrome-untrusted://", "data:")  # an empty tab asks for these
    assert [url for url in strange if not url.startswith(own)] == []
    charts = page.find_elements(By.CSS_SELECTOR, "figure")
    assert len(charts) >= 10
    for chart in charts:
        drawn = chart.find_elements(By.CSS_SELECTOR, "svg .curve, svg .dot, svg .cell, svg .solid")
        assert drawn, chart.get_attribute("id")


def test_it_opens_on_the_papers_picture_then_the_decision(page: Any) -> None:
    order = page.execute_script(
        "return [...document.querySelector('header').children].map(e => e.className || e.id)"
    )
    assert order[1:3] == ["chart-retained", "decision"]
    box = page.find_element(By.CSS_SELECTOR, ".decision")
    picture = page.find_element(By.ID, "chart-retained")
    assert picture.rect["y"] < 200
    assert box.rect["y"] > picture.rect["y"] + picture.rect["height"]
    assert box.find_element(By.CSS_SELECTOR, ".badge").text in ("switch", "stay", "too early")
    rows = [row.text for row in box.find_elements(By.CSS_SELECTOR, "tbody th")]
    assert rows[:3] == [
        "served log-loss (lower is better)",
        "retained instances (did not diverge)",
        "useful instances (beat a constant CTR)",
    ]
    assert "Based on 52 cycles of both arms" in box.text


def test_no_curve_is_cut_off_at_its_first_cycle(page: Any) -> None:
    outside = page.execute_script("""
        const found = [];
        for (const chart of charts) for (const panel of chart.panels) {
          if (panel.panel.x.unit !== "cycle") continue;
          const { left, right, top, bottom } = panel.box;
          for (const path of panel.svg.querySelectorAll(".curve")) {
            const start = path.getPointAtLength(0);
            const aside = start.x < left + 1 || start.x > right;
            if (aside || start.y < top || start.y > bottom) found.push(chart.data.key);
          }
        }
        return found;""")
    assert outside == []


def test_what_a_run_says_is_shown_and_never_executed(page: Any, folder: Path) -> None:
    assert page.title == "Retained-fraction report"
    assert page.find_elements(By.TAG_NAME, "img") == []
    assert "<img src=x" in page.find_element(By.CSS_SELECTOR, ".runs").text
    injected = (
        "const s = document.createElement('script'); s.textContent = \"document.title = 'x'\";"
    )
    page.execute_script(f"{injected} document.body.append(s)")
    assert page.title == "Retained-fraction report"  # the page's own policy refuses it


def test_no_path_has_a_number_that_is_none(page: Any) -> None:
    paths = page.execute_script(
        "return [...document.querySelectorAll('svg *')].map(e => e.outerHTML).filter("
        "t => /NaN|Infinity|undefined/.test(t))"
    )
    assert paths == []


def test_an_outlier_stands_at_the_edge_and_ruins_no_scale(page: Any) -> None:
    chart = panel(page, "norms")
    assert len(chart.find_elements(By.CSS_SELECTOR, ".beyond")) == 1
    data = page.execute_script("return JSON.parse(document.getElementById('charts').textContent)")
    norms = next(one for one in data if one["key"] == "norms")
    assert norms["panels"][0]["y"]["high"] < 30


def test_pointing_tells_the_values(page: Any) -> None:
    chart = panel(page, "retained")
    ActionChains(page).move_to_element(chart).perform()
    told = tip(page)
    assert told.startswith("cycle ")
    assert "production: " in told
    assert "smoothed" in told
    ActionChains(page).move_to_element(panel(page, "where-it-diverges")).perform()
    assert "eta0" in tip(page) or "champion" in tip(page)


def test_keys_move_the_cursor(page: Any) -> None:
    chart = panel(page, "retained")
    page.execute_script("arguments[0].focus()", chart)
    for _ in range(3):
        ActionChains(page).send_keys("\ue014").perform()
    assert tip(page).startswith("cycle 2")


def test_dragging_zooms_and_a_double_click_goes_back(page: Any) -> None:
    before = labels(page, "norms", 1)
    chart = panel(page, "norms", 0)
    drag = ActionChains(page).move_to_element_with_offset(chart, -60, 0).click_and_hold()
    drag.move_by_offset(60, 2).release().perform()
    zoomed = labels(page, "norms", 1)
    assert zoomed != before  # the panels of a chart go together
    assert not page.find_elements(By.CSS_SELECTOR, "#chart-norms .reset")[0].get_property("hidden")
    ActionChains(page).double_click(chart).perform()
    assert labels(page, "norms", 1) == before


@pytest.fixture
def phone(page: Any) -> Iterator[Any]:
    emulate(page, 390)
    page.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": True})
    yield page
    page.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": False})


def test_a_finger_tells_the_values_and_zooms(phone: Any) -> None:
    before = labels(phone, "retained", 0)
    x, y = middle(phone, panel(phone, "norms"))
    touch(phone, [(x, y)])
    x, y = middle(phone, panel(phone, "retained"))
    touch(phone, [(x, y)])
    assert tip(phone).startswith("cycle ")  # and it stays when the finger is gone
    assert len(phone.find_elements(By.CSS_SELECTOR, ".cursor")) == 1
    touch(phone, [(x + step, y) for step in range(0, 110, 10)])
    assert labels(phone, "retained", 0) != before
    touch(phone, [middle(phone, phone.find_element(By.CSS_SELECTOR, "#chart-retained .reset"))])
    assert labels(phone, "retained", 0) == before
    assert tip(phone) == ""
    assert not phone.find_elements(By.CSS_SELECTOR, ".cursor")


def middle(page: Any, element: WebElement) -> tuple[float, float]:
    """Where in the window an element is, once it is there."""
    x, y = page.execute_script(
        "arguments[0].scrollIntoView({block: 'center', behavior: 'instant'}); "
        "const r = arguments[0].getBoundingClientRect(); "
        "return [r.x + r.width / 2, r.y + r.height / 2]",
        element,
    )
    return x, y


def touch(page: Any, way: list[tuple[float, float]]) -> None:
    """A finger goes down, along the way, and up; not at once, which would be a double tap."""
    time.sleep(0.5)
    for number, (x, y) in enumerate(way):
        kind = "touchMove" if number else "touchStart"
        event = {"type": kind, "touchPoints": [{"x": x, "y": y}]}
        page.execute_cdp_cmd("Input.dispatchTouchEvent", event)
    page.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})


def labels(page: Any, chart: str, number: int) -> list[str]:
    texts = panel(page, chart, number).find_elements(By.TAG_NAME, "text")
    return [text.get_attribute("textContent") or "" for text in texts]


def test_the_legend_hides_an_arm(page: Any) -> None:
    button = page.find_element(By.CSS_SELECTOR, "#chart-retained .legend button")
    count = "#chart-retained .curve"
    before = len(page.find_elements(By.CSS_SELECTOR, count))
    page.execute_script("arguments[0].click()", button)
    assert button.get_attribute("aria-pressed") == "false"
    assert len(page.find_elements(By.CSS_SELECTOR, count)) == before - 2
    page.execute_script("arguments[0].click()", button)
    assert len(page.find_elements(By.CSS_SELECTOR, count)) == before


def test_tables_sort_by_number_and_by_name(page: Any) -> None:
    def press(column: int) -> list[str]:
        head = page.find_elements(By.CSS_SELECTOR, "#rules th button")[column]
        page.execute_script("arguments[0].click()", head)
        cells = page.find_elements(By.CSS_SELECTOR, f"#rules td:nth-child({column + 1})")
        return [cell.text for cell in cells]

    falling = press(2)
    assert [float(t.split("%")[0]) for t in falling] == sorted(
        (float(t.split("%")[0]) for t in falling), reverse=True
    )
    assert press(2) == falling[::-1]
    assert press(0) == ["production", "euclidean", "entropic"]


@pytest.mark.parametrize("width", [360, 768, 1200])
def test_no_width_scrolls_sideways(page: Any, width: int) -> None:
    emulate(page, width)
    page.refresh()
    assert page.execute_script("return document.documentElement.scrollWidth") <= width
    svg = panel(page, "retained")
    assert 0 < svg.size["width"] <= width


def luminance(page: Any, selector: str, style: str) -> float:
    rgb = page.execute_script(
        f"return getComputedStyle(document.querySelector('{selector}')).{style}"
    )
    parts = [float(p) for p in rgb[rgb.index("(") + 1 : -1].split(",")[:3]]
    return sum(parts) / 3


def test_dark_where_the_reader_prefers_it_and_light_on_paper(page: Any) -> None:
    assert luminance(page, "body", "backgroundColor") > 200 > luminance(page, "body", "color")
    emulate(page, 1200, dark=True)
    assert luminance(page, "body", "backgroundColor") < 60 < luminance(page, "body", "color")
    assert luminance(page, "svg text", "fill") > 120
    emulate(page, 1200, dark=True, medium="print")
    assert luminance(page, "body", "backgroundColor") > 200


def test_it_prints(page: Any) -> None:
    pdf = base64.b64decode(
        page.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"]
    )
    assert pdf.startswith(b"%PDF")
    assert 3 <= pdf.count(b"/Type /Page\n") + pdf.count(b"/Type /Page ") <= 40
