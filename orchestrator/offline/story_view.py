"""The story of a divergence in plain words."""

from collections.abc import Iterator
from statistics import fmean

from orchestrator.offline.story import Story, StoryVector, way_to

MAX_NAMES = 4


def definitions(story: Story) -> str:
    """What the story calls grown, and what a line between two vectors means."""
    return (
        f"A vector grew at the first event after which its ‖v‖∞ was at least {story.level:.3g}, a "
        "third of τ. A line leads to it from every vector that had grown before, took part in that "
        "event and multiplied its gradient there."
    )


def title(story: Story) -> str:
    """Which instance it is."""
    return f"{story.arm}, cycle {story.cycle}, instance {story.instance}"


def sentences(story: Story) -> Iterator[str]:
    """What happened, in order."""
    yield _beginning(story)
    if story.grown > 1:
        yield _middle(story)
    yield _ending(story)
    if story.end is not None and len(way := way_to(story, story.end)) > 1:
        names = [story.vectors[number].name for number in way]
        left = "…, " if len(names) > MAX_NAMES else ""
        yield f"Growth came to it by way of {left}{', then '.join(names[:-1][-MAX_NAMES:])}."
    if story.company:
        shared, nearby = (fmean(column) for column in zip(*story.company, strict=True))
        yield (
            f"A vector that had grown before took part in {shared:.0%} of the {len(story.company)} "
            f"later events with a growth, and in {nearby:.0%} of the events just before those."
        )
    yield _twin(story)


def _beginning(story: Story) -> str:
    event = story.vectors[0].event
    first = [vector for vector in story.vectors if vector.event == event]
    if event < 0:
        return f"{_names(first)} {_was(first)} large from the start."
    return f"{_names(first)} grew first, at event {event:,}."


def _middle(story: Story) -> str:
    half = story.vectors[(len(story.vectors) - 1) // 2].event
    count = sum(vector.event <= half for vector in story.vectors)
    by = f"By event {half:,}, {count} had grown. " if 0 < count < story.grown else ""
    return (
        f"{by}Of the {story.grown} vectors that grew, {story.beside} did so in an event with one "
        "that had grown before."
    )


def _ending(story: Story) -> str:
    if not story.lost:
        return f"It did not diverge: it trained on all {story.events_done:,} events."
    name = "the bias" if story.end is None else story.vectors[story.end].name
    norm = "a number that is not finite" if story.end_norm is None else f"{story.end_norm:.3g}"
    return f"It ended at event {story.events_done - 1:,}, when {name} reached {norm}."


def _twin(story: Story) -> str:
    twin = story.twin
    largest = "was not finite" if twin.largest is None else f"was {twin.largest:.3g}"
    grown = f"{twin.grown} vectors grew" if twin.grown else "no vector grew"
    lost = f"; on the complete chunk it diverged too: {twin.lost}" if twin.lost else ""
    return f"With {twin.rule} on the same events {grown}, and the largest norm {largest}{lost}."


def _was(vectors: list[StoryVector]) -> str:
    return "was" if len(vectors) == 1 else "were"


def _names(vectors: list[StoryVector]) -> str:
    names = [vector.name for vector in vectors]
    if len(names) > MAX_NAMES:
        names = [*names[: MAX_NAMES - 1], f"{len(names) - MAX_NAMES + 1} others"]
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
