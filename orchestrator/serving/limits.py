"""The options of the HTTP service."""

from dataclasses import dataclass

VALUES_PER_AD = 20
"""JSON values for each of `max_ads`: 200,000 by default, which are parsed in about 30 ms."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a client may send. Each is an option of `holdfast serve`, such as --max-body-mb."""

    max_body_mb: float = 2.0
    """Megabytes of 10^6 bytes."""
    max_ads: int = 10_000
    """In one request, over all its users."""
    max_values: int = 1_000
    """Of one feature."""
    read_timeout_s: float = 10.0
    """From the first byte of a request to its last."""
    max_connections: int = 512

    @property
    def body_bytes(self) -> int:
        """The largest body."""
        return int(self.max_body_mb * 1e6)

    @property
    def json_values(self) -> int:
        """The most values in a body: bounds the time to parse it, which holds up all threads."""
        return VALUES_PER_AD * self.max_ads

    @property
    def object_keys(self) -> int:
        """The most keys of an object: a value of a weighted feature each, or a feature each."""
        return 1_000 + self.max_values


DEFAULT = Limits()


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """What a serving process needs to know, beside its socket."""

    source: str
    arm: str | None
    host: str
    poll_s: float
    max_age_s: float | None
    limits: Limits
