"""The section on the story of a divergence: which one is shown, and the verdict on contagion."""

from dataclasses import replace

import pandas as pd

from orchestrator.offline.story import Story
from orchestrator.report.aborts import Abort, AbortId, best_stories
from orchestrator.report.page import Frame, page
from orchestrator.report.sections.story import story_section
from orchestrator.report.story_page import story_page
from orchestrator.report.verdict import Verdict
from support.stories import made_up_story

STORY = made_up_story()


def abort(run: str, story: Story | None) -> Abort:
    return Abort(run, AbortId("production", 3, 7), 15.0, pd.DataFrame(), story)


def test_of_each_run_the_longest_is_shown_and_dual_ascent_only_where_it_is_alone() -> None:
    longer = replace(STORY, events_done=300)
    held = replace(STORY, rule="entropic", events_done=999)
    aborts = [abort("a", longer), abort("a", STORY), abort("a", held), abort("b", held),
              abort("b", None), abort("c", None)]  # fmt: skip
    assert best_stories(aborts) == {"a": longer, "b": held}
    assert story_section(best_stories([abort("c", None)])) is None


def verdict(*company: tuple[bool, float]) -> Verdict | None:
    section = story_section({"run": replace(STORY, company=company)})
    assert section is not None
    [finding] = section.findings
    return finding.verdict


def test_growth_is_contagious_if_large_vectors_take_part_more_often_than_nearby() -> None:
    assert verdict(*[(True, 0.1), (True, 0.3)] * 10) is Verdict.AGREES
    assert verdict(*[(False, 0.9), (False, 0.8)] * 10) is Verdict.DISAGREES
    assert verdict(*[(True, 0.5), (False, 0.5)] * 10) is Verdict.OPEN
    assert verdict(*[(True, 0.1)] * 11) is Verdict.OPEN  # too few
    assert verdict() is Verdict.OPEN


def test_stories_of_several_runs_are_told_apart() -> None:
    section = story_section({"a": STORY, "b": replace(STORY, instance=8)})
    assert section is not None
    titles = [panel.title for panel in section.charts[0].panels]
    assert titles == ["a: production, cycle 3, instance 7", "b: production, cycle 3, instance 8"]
    text = page("x", Frame("", "", ""), [section])
    assert text.count('<figure id="story-') == 2
    assert "The graph shows 4 of the 6 vectors that grew" in text
    assert "instance 8: how growth spread" in text


def test_a_story_alone_has_no_figures_beside_it() -> None:
    alone = story_page(STORY)
    assert "The charts need JavaScript.</p>" in alone
    section = story_section({"": STORY})
    assert section is not None
    assert "The folder figures/ beside this page" in page("A report", Frame("", "", ""), [section])
