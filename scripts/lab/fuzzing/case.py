"""An input of the fuzzer, what can be wrong with its handling, and the interface of a kind."""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from scripts.lab.fuzzing.sandbox import Sandbox


@dataclass(frozen=True)
class Case:
    """One input. A file of it is a line of JSON, the kind and `head`, followed by `body`."""

    kind: str
    body: bytes = b""
    head: dict[str, Any] = field(default_factory=dict)

    def encode(self) -> bytes:
        """The bytes of its file."""
        return json.dumps({"kind": self.kind} | self.head).encode() + b"\n" + self.body

    @staticmethod
    def decode(data: bytes) -> "Case":
        """Read the bytes of a file."""
        line, _, body = data.partition(b"\n")
        head = json.loads(line)
        return Case(head.pop("kind"), body, head)


class Kind(Protocol):
    """One kind of input."""

    name: str
    share: int
    """How often it is generated, in proportion to the other kinds."""

    def generate(self, rng: random.Random) -> Case:
        """A new input; the same one for the same state of `rng`."""
        ...

    def run(self, case: Case, box: Sandbox) -> None:
        """Hand the input to Holdfast; raises Failure if it is not handled well."""
        ...

    def command(self, case: Case, box: Sandbox) -> list[str] | None:
        """The arguments of `holdfast` for the same input, after `run`; None: no command fits."""
        ...

    def simpler(self, case: Case) -> Iterator[Case]:
        """Smaller inputs of the same kind, the smallest first: the candidates to shrink it to."""
        ...
