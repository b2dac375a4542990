"""The story of a divergence: how growth spread from vector to vector, beside its twin."""

from collections.abc import Mapping

from orchestrator.charts.chart import Axis, Chart, Level, Line, Panel, numbers, span_of
from orchestrator.offline.story import Story
from orchestrator.offline.story_view import definitions, sentences, title
from orchestrator.report.interval import MIN_CYCLES, mean_interval
from orchestrator.report.section import Section
from orchestrator.report.verdict import Finding, above


def story_section(stories: Mapping[str, Story]) -> Section | None:
    """One story of each run, by the run's name; None if there is none."""
    if not stories:
        return None
    several = len(stories) > 1
    first = next(iter(stories.values()))
    return Section(
        key="story",
        title="The story of a divergence",
        claim="Divergence is contagious: a few large entries make the vectors grow that share an "
        "event with them.",
        findings=tuple(_finding(run, story) for run, story in stories.items()),
        charts=(
            Chart(
                "story",
                "The largest of these vectors, and of the same vectors in the twin",
                "After some hundred events, denser towards the end. Norms beyond the axis are at "
                "its edge.",
                tuple(
                    _panel(story, f"{run}: {title(story)}" if several else title(story))
                    for run, story in stories.items()
                ),
            ),
        ),
        note=f"{definitions(first)} An event with a growth is compared with up to 100 events "
        "before it, since the first growth, that have none. Growth is contagious if vectors that "
        "had grown before take part in it more often than in those, by more than the 95% "
        f"interval. It is open where the interval contains zero, and with fewer than {MIN_CYCLES} "
        "such events, which have no interval. The instance was trained again, "
        "with identical bits. Its twin has the same start, events, eta0, alpha and beta. The "
        "twin's rule is entropic (holdfast if the instance's own is entropic), with the constants "
        "of this run's arm or the defaults. The report shows, of each run, the retrained instance "
        "that trained longest, of an arm without dual ascent if there is one. `holdfast replay "
        "RUN --cycle N --instance I --story` shows any other.",
        stories=tuple(stories.values()),
    )


def _finding(run: str, story: Story) -> Finding:
    more = mean_interval([shared - nearby for shared, nearby in story.company])
    return Finding(f"{title(story)}: {' '.join(sentences(story))}", above(more), run)


def _panel(story: Story, name: str) -> Panel:
    events = numbers(story.frames)
    own, twin = (
        numbers([max(column) for column in zip(*norms, strict=True)])
        for norms in (
            [[_size(n) for n in vector.norms] for vector in story.vectors],
            [[_size(n) for n in vector.twin_norms] for vector in story.vectors],
        )
    )
    _, high = span_of([own, twin], include=[story.tau])
    return Panel(
        name,
        Axis("event", events[0], max(events[-1], events[0] + 1), unit="count"),
        Axis("largest ‖v‖∞", 0, min(max(high, 1.15 * story.tau), 1.5 * story.tau)),
        (
            Level("τ", story.tau),
            Level("grown", story.level),
            Line(story.rule, "accent", events, own),
            Line(f"twin with {story.twin.rule}", 0, events, twin),
        ),
    )


def _size(norm: float | None) -> float:
    """For drawing: what is not finite is far beyond the axis."""
    return 1e30 if norm is None else norm
