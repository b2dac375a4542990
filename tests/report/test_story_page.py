"""The story's page in a real browser: played, paused, asked, without motion, narrow and dark."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from orchestrator.report.story_page import write_story
from support.browser import chromium, emulate
from support.stories import FRAMES, made_up_story

pytestmark = pytest.mark.slow

NASTY = "</script><img src=x onerror=\"document.title='taken'\">"


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, str]]:
    file = tmp_path_factory.mktemp("story") / "story.html"
    write_story(made_up_story(NASTY), str(file))
    with chromium(tmp_path_factory.mktemp("profile")) as browser:
        yield browser, file.as_uri()


@pytest.fixture
def page(opened: tuple[Any, str]) -> Any:
    browser, uri = opened
    emulate(browser, 1200)
    browser.get(uri)
    return browser


def told(page: Any) -> str:
    return str(page.find_element(By.CSS_SELECTOR, "#story-0 output").text)


def radii(page: Any, graph: int) -> list[float]:
    dots = page.find_elements(By.CSS_SELECTOR, "#story-0 .graph")[graph]
    return [float(dot.get_attribute("r")) for dot in dots.find_elements(By.CSS_SELECTOR, ".vector")]


def links(page: Any) -> int:
    return len(page.find_elements(By.CSS_SELECTOR, "#story-0 .link.there"))


def move(page: Any, frame: int) -> None:
    """By the keys of the slider."""
    slider = page.find_element(By.CSS_SELECTOR, "#story-0 input")
    slider.send_keys(Keys.HOME, *[Keys.ARROW_RIGHT] * frame)


def wait_for(fact: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not fact():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_it_opens_on_the_end_without_an_error(page: Any) -> None:
    assert [e for e in page.get_log("browser") if e["level"] in ("SEVERE", "WARNING")] == []
    assert page.title == "production, cycle 3, instance 7"
    assert page.find_elements(By.TAG_NAME, "img") == []
    assert told(page) == ("Event 200: 4 of these 4 vectors have grown. Largest ‖v‖∞ not finite, in "
                          "the twin 1.")  # fmt: skip
    assert links(page) == 4
    own, twin = radii(page, 0), radii(page, 1)
    assert own[3] == 10  # of what is not finite
    assert all(a > 2 * b for a, b in zip(own, twin, strict=True))
    assert "device=" + NASTY in page.find_element(By.CSS_SELECTOR, ".says").text


def test_the_slider_goes_through_the_events(page: Any) -> None:
    grown = []
    for frame in range(len(FRAMES)):
        move(page, frame)
        assert told(page).startswith(f"Event {FRAMES[frame]}: ")
        marks = page.find_elements(By.CSS_SELECTOR, "#story-0 .graph:first-of-type .vector.grown")
        grown.append((len(marks), links(page)))
    assert grown == [(0, 0), (1, 0), (2, 1), (3, 2), (3, 2), (4, 4)]
    slider = page.find_element(By.CSS_SELECTOR, "#story-0 input")
    assert slider.get_attribute("aria-valuetext") == told(page)


def test_it_plays_to_the_end_and_can_be_paused(page: Any) -> None:
    button = page.find_element(By.CSS_SELECTOR, "#story-0 .play button")
    button.send_keys(Keys.ENTER)  # from the start again
    assert button.text == "Pause"
    wait_for(lambda: "Event 100: " in told(page))
    button.send_keys(Keys.SPACE)
    assert button.text == "Play"
    at = told(page)
    time.sleep(0.6)  # more than a frame takes
    assert told(page) == at != ""
    button.click()
    wait_for(lambda: button.text == "Play")
    assert told(page).startswith("Event 200: ")
    assert links(page) == 4


def test_without_motion_the_button_goes_from_growth_to_growth(page: Any) -> None:
    calm = [{"name": "prefers-reduced-motion", "value": "reduce"}]
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": calm})
    page.refresh()
    button = page.find_element(By.CSS_SELECTOR, "#story-0 .play button")
    assert button.text == "Next growth"
    seen = []
    for _ in range(6):
        button.click()
        seen.append(int(told(page).split()[1].rstrip(":")))
    assert seen == [90, 100, 150, 180, 200, 90]


def test_a_vector_tells_its_name_and_its_lines(page: Any) -> None:
    graph = page.find_element(By.CSS_SELECTOR, "#story-0 .graph")
    page.execute_script("arguments[0].focus()", graph)
    for _ in range(4):
        ActionChains(page).send_keys(Keys.ARROW_RIGHT).perform()
    tip = page.find_element(By.ID, "tip")
    assert tip.text == (f"device={NASTY}d\ngrew at event 200\nbeside user={NASTY}u\n"
                        f"beside kind={NASTY}k\nnow not finite, in the twin 0.6")  # fmt: skip
    assert len(page.find_elements(By.CSS_SELECTOR, ".link.chosen-one")) == 2
    ActionChains(page).send_keys(Keys.ESCAPE).perform()
    assert not tip.is_displayed()
    dot = page.find_element(By.CSS_SELECTOR, "#story-0 .vector")
    ActionChains(page).move_to_element(dot).perform()
    assert tip.text.startswith(f"creative={NASTY}c\ngrew at event 100")


@pytest.mark.parametrize("width", [360, 1200])
def test_no_width_scrolls_sideways_and_it_is_dark_where_preferred(page: Any, width: int) -> None:
    emulate(page, width, dark=True)
    page.refresh()
    assert page.execute_script("return document.documentElement.scrollWidth") <= width
    for graph in page.find_elements(By.CSS_SELECTOR, "#story-0 .graph"):
        assert 0 < graph.size["width"] <= width
    colour = "return getComputedStyle(document.querySelector('.vector.grown')).fill"
    assert page.execute_script(colour) == "rgb(255, 138, 76)"
