"""A source is a folder: nothing else names it."""

from importlib import import_module
from pathlib import Path

import pytest

from orchestrator.sources.registry import discovered

CONFIG = """
from typing import Literal

from orchestrator.sources.protocol import SourceConfig


class {name}Config(SourceConfig):
    kind: Literal["{kind}"] = "{kind}"
"""


def test_every_kind_is_found_and_named_by_its_folder() -> None:
    found = discovered(import_module("orchestrator.sources"))
    assert set(found) == {"files", "follow", "python", "simulator"}
    for kind, config in found.items():
        assert config.__module__ == f"orchestrator.sources.{kind}.config"
        assert not config.__abstractmethods__


def test_a_folder_dropped_in_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "more_sources"
    for name, text in [("queue", CONFIG.format(name="Queue", kind="queue")), ("notes", None)]:
        (package / name).mkdir(parents=True)
        (package / name / "__init__.py").touch()
        if text is not None:
            (package / name / "config.py").write_text(text)
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    (kind,) = discovered(import_module("more_sources")).items()
    assert (kind[0], kind[1].__name__) == ("queue", "QueueConfig")
    with pytest.raises(TypeError, match=r"abstract method .?open"):
        kind[1]()
