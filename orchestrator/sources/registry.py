"""The kinds of source that a config may name."""

from typing import Annotated

from pydantic import SerializeAsAny

from orchestrator.mistakes import one_of
from orchestrator.strict import Strict

SOURCES: dict[str, type[Strict]] = {}
"""The config of each kind, by the text of its `kind`: one line here makes a source known."""

AnySource = Annotated[SerializeAsAny[Strict], one_of(SOURCES, "kind")]
