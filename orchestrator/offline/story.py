"""The story of a divergence as data: which vectors grew, from which event on, beside which others.

`story_of` makes it from a run. The report keeps it as a JSON file.
"""

from dataclasses import dataclass

from pydantic import TypeAdapter

from divergence.errors import InputError

DUAL_ASCENT, BOUNDED = "entropic", "holdfast"
"""The twin's rule; the second for instances that have the first themselves."""


@dataclass(frozen=True, slots=True)
class StoryVector:
    """A vector that grew; a norm is None where it is not finite.

    It grew at `event`, the first after which its ‖v‖∞ was at the story's level (-1: at the start).
    `sources` says beside which vectors of the story, by their number.
    """

    feature: str
    value: str
    event: int
    sources: tuple[int, ...]
    norms: tuple[float | None, ...]
    """After the events in the story's `frames`."""
    twin_norms: tuple[float | None, ...]

    @property
    def name(self) -> str:
        """The feature and its value."""
        return f"{self.feature}={self.value or '(missing)'}"


@dataclass(frozen=True, slots=True)
class StoryTwin:
    """The same instance with another rule, on the same events from the same start.

    `grown` counts its vectors that reached the level; `largest` is the largest norm of all, None
    where it is not finite. `lost` says why it diverged on the complete chunk; empty if it did not.
    """

    rule: str
    grown: int
    largest: float | None
    lost: str


@dataclass(frozen=True, slots=True)
class Story:
    """How growth spread in one instance, up to its end.

    `vectors` are in the order in which they grew: all `grown` ones, or those that lead to the end
    and the first of the others. `lost` says why the instance diverged; it is empty if it did not.
    `end` is the number of the vector that reached tau (None: the bias), `end_norm` what it reached.
    Of the `grown` vectors, `beside` have sources.
    """

    arm: str
    rule: str
    cycle: int
    instance: int
    tau: float
    level: float
    chunk_events: int
    events_done: int
    lost: str
    end: int | None
    end_norm: float | None
    grown: int
    beside: int
    company: tuple[tuple[bool, float], ...]
    """For each event with a growth, after the first: whether a vector that had grown before took
    part in it, and in which share of the events just before it one did."""
    frames: tuple[int, ...]
    vectors: tuple[StoryVector, ...]
    twin: StoryTwin


STORY = TypeAdapter(Story)


def dump_story(story: Story) -> bytes:
    """The story as a JSON file."""
    return STORY.dump_json(story)


def load_story(data: bytes, name: str) -> Story:
    """Read a JSON file; InputError if it is not a story."""
    try:
        story = STORY.validate_json(data)
        _check(story)
    except ValueError:
        raise InputError(f"{name}: not the story of an abort: delete it") from None
    return story


def _check(story: Story) -> None:
    """Raise ValueError where a number points to nothing, or to a vector that grew later."""
    known = story.end is None or 0 <= story.end < len(story.vectors)
    before = all(0 <= n < i for i, v in enumerate(story.vectors) for n in v.sources)
    lengths = {len(norms) for v in story.vectors for norms in (v.norms, v.twin_norms)}
    if not (known and before and story.frames and lengths == {len(story.frames)}):
        raise ValueError("numbers that point to nothing")


def way_to(story: Story, number: int) -> list[int]:
    """The vectors by which growth came to one: from each to the source that grew first."""
    way = [number]
    while sources := story.vectors[way[-1]].sources:
        way.append(min(sources))
    return way[::-1]
