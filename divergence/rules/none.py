"""`none`: nothing limits the vectors."""

from typing import NamedTuple


class NoRule(NamedTuple):
    """The loss alone."""
