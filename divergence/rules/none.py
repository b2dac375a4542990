"""`none`: nothing holds the vectors."""

from typing import NamedTuple


class NoRule(NamedTuple):
    """The loss alone."""
