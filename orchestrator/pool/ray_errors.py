"""What Ray's errors mean to us."""

import re

from ray.exceptions import ActorUnavailableError, RayError


def node_is_lost(error: RayError) -> bool:
    """Whether the actor went with its node, or can no longer be reached."""
    return isinstance(error, ActorUnavailableError) or "node has died" in str(error)


def told(error: Exception) -> str:
    """What Ray says in one line: the first, or of an error in an actor's creation the last."""
    lines = re.sub(r"\x1b\[[0-9;]*m", "", str(error)).strip().splitlines() or [""]
    line = lines[-1] if "creation task" in lines[0] else lines[0]
    return f"{type(error).__name__}: {line.strip()}"
