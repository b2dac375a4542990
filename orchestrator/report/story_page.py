"""A page with one story alone."""

from orchestrator.offline.story import Story
from orchestrator.offline.story_view import title
from orchestrator.report.page import Frame, page
from orchestrator.report.sections.story import story_section
from orchestrator.storage.output import write_file


def story_page(story: Story) -> str:
    """The complete document."""
    section = story_section({"": story})
    assert section is not None
    return page(title(story), Frame("", "", ""), [section], paper_first=False, figures=False)


def write_story(story: Story, path: str | None = None) -> str:
    """Write the page to a local path or URI, replacing it; return where it is."""
    path = path or f"story-{story.arm}-cycle-{story.cycle}-instance-{story.instance}.html"
    write_file(path, story_page(story).encode())
    return path
