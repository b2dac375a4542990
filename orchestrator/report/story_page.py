"""A page with one story alone."""

from divergence.errors import InputError
from orchestrator.offline.story import Story
from orchestrator.offline.story_view import title
from orchestrator.report.page import Frame, page
from orchestrator.report.sections.story import story_section
from orchestrator.storage.output import Output


def story_page(story: Story) -> str:
    """The complete document."""
    section = story_section({"": story})
    assert section is not None
    return page(title(story), Frame("", "", ""), [section], paper_first=False)


def write_story(story: Story, path: str | None = None) -> str:
    """Write the page to a local path or URI, replacing it; return where it is."""
    name = f"story-{story.arm}-cycle-{story.cycle}-instance-{story.instance}.html"
    folder, slash, file = (path or name).rpartition("/")
    if not file:
        raise InputError(f"--out {path}: must be a file, not a folder")
    Output(folder + slash or ".").put(file, story_page(story).encode())
    return path or name
