"""Ray's errors, classified and in one line."""

import re

from ray.exceptions import ActorUnavailableError, RayError


def node_is_lost(error: RayError) -> bool:
    """Whether the actor went with its node, or can no longer be reached."""
    return isinstance(error, ActorUnavailableError) or "node has died" in str(error)


def first_line(error: Exception) -> str:
    """Ray's message in one line: its first, or its last where an actor's creation failed."""
    lines = re.sub(r"\x1b\[[0-9;]*m", "", str(error)).strip().splitlines() or [""]
    line = lines[-1] if "creation task" in lines[0] else lines[0]
    return f"{type(error).__name__}: {line.strip()}"
