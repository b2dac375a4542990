"""The kinds of source that a config may name: one folder each, found by looking.

To add a kind, add a folder here whose config.py has a subclass of `SourceConfig`, and a test.
"""

from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules
from types import ModuleType
from typing import Annotated

from pydantic import SerializeAsAny

import orchestrator.sources
from orchestrator.sources.protocol import SourceConfig
from orchestrator.validation.errors import one_of


def discovered(package: ModuleType) -> dict[str, type[SourceConfig]]:
    """The config class of every folder in `package` that has a config.py, by its `kind`."""
    found = {}
    for folder in iter_modules(package.__path__, f"{package.__name__}."):
        name = f"{folder.name}.config"
        if folder.ispkg and find_spec(name):
            classes = [c for c in vars(import_module(name)).values() if _is_source(c, name)]
            (config,) = classes
            found[config.model_fields["kind"].default] = config
    return found


def _is_source(value: object, module: str) -> bool:
    return (
        isinstance(value, type) and issubclass(value, SourceConfig) and value.__module__ == module
    )


SOURCES: dict[str, type[SourceConfig]] = discovered(orchestrator.sources)
"""The config class of each kind, by the text of its `kind`."""

MEANT = dict.fromkeys(("csv", "parquet", "jsonl", "json", "file"), "files") | dict.fromkeys(
    ("sql", "sqlite", "postgres", "kafka", "own"), "python, or follow a folder of Parquet files"
)
"""What users may take for a kind, and what to write instead."""

AnySource = Annotated[SerializeAsAny[SourceConfig], one_of(SOURCES, "kind", MEANT)]
