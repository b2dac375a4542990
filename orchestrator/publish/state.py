"""What the place that a run publishes to serves, in words."""

from dataclasses import dataclass

from divergence.errors import InputError, one_line
from orchestrator.config.schema import RunConfig
from orchestrator.publish.place import newest_version
from orchestrator.storage.open import open_store


@dataclass(frozen=True, slots=True)
class PublishedState:
    """The newest version of a place; `version` is None if it has none or cannot be read."""

    place: str
    version: int | None = None
    cycle: int | None = None
    held: bool = False
    """It was rolled back, and newer champions are not published."""
    error: str | None = None

    def __str__(self) -> str:
        if self.error is not None:
            return f"{self.place} cannot be read: {self.error}"
        if self.version is None:
            return f"nothing yet to {self.place}"
        if not self.held:
            return f"version {self.version} (cycle {self.cycle}) in {self.place}"
        return (
            f"{self.place} is held at version {self.version} (cycle {self.cycle}) since a "
            f"rollback: newer champions are not served; to go on: holdfast rollback {self.place} "
            "--forward"
        )


def published_state(config: RunConfig) -> PublishedState | None:
    """The state of the place in `publish:`; None if the run publishes nothing."""
    if config.publish is None:
        return None
    place = config.publish.to
    try:
        newest = newest_version(open_store(place))
    except (InputError, OSError) as error:
        return PublishedState(place, error=one_line(error))
    if newest is None:
        return PublishedState(place)
    number = newest.number if newest.copy_of is None else newest.copy_of
    return PublishedState(place, number, newest.cycle, newest.held)
