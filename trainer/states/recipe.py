"""How a trainer is made in any process."""

import importlib
from dataclasses import dataclass
from typing import Any

from divergence import own_code


@dataclass(frozen=True)
class Recipe:
    """How to make a trainer in any process: its class as module:Name, and its options."""

    reference: str
    options: dict[str, Any]
    seed: int
    own: bool
    """Whether the class is the user's own, whose source travels with it."""

    def kind(self) -> Any:
        """The class. InputError where it cannot be had."""
        if self.own:
            return own_code.load(self.reference)
        module, _, name = self.reference.partition(":")
        return getattr(importlib.import_module(module), name)
