"""Imports point one way, and the heavy ones stay in their rooms."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LAYERS = ("divergence", "trainer", "orchestrator", "scripts")
"""Each may import itself and what stands before it."""


def sources(layer: str) -> list[Path]:
    return sorted((ROOT / layer).rglob("*.py"))


def imported(path: Path) -> Iterator[str]:
    """The top-level names of everything that a file imports, wherever in the file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.relative_to(ROOT)}: relative import"
            yield str(node.module).split(".")[0]


@pytest.mark.parametrize("layer", LAYERS)
def test_imports_point_one_way(layer: str) -> None:
    above = set(LAYERS[LAYERS.index(layer) + 1 :])
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in sources(layer)
        for name in imported(path)
        if name in above
    ]
    assert wrong == []


def test_there_is_something_to_look_at() -> None:
    for layer in LAYERS[:3]:
        assert len(sources(layer)) > 5
    trainer = {name for path in sources("trainer") for name in imported(path)}
    assert {"divergence", "numpy", "trainer"} <= trainer


@pytest.mark.parametrize("layer", ["divergence", "trainer"])
def test_an_instance_knows_no_ray(layer: str) -> None:
    assert [path for path in sources(layer) if "ray" in imported(path)] == []


def test_few_files_of_the_orchestrator_know_ray() -> None:
    """A room of its own: not config, journal, selection, sources, nor anything a test can run."""
    rooms = [path for path in sources("orchestrator") if "ray" in imported(path)]
    assert len(rooms) <= 6
    pure = ("config", "journal", "record", "search", "selection", "rules", "sources", "view")
    for path in rooms:
        assert path.relative_to(ROOT / "orchestrator").parts[0].removesuffix(".py") not in pure


def test_divergence_is_of_use_without_the_rest() -> None:
    """numpy and numba (with its llvmlite) beside the standard library, and the bounds' names."""
    allowed = {"divergence", "numpy", "numba", "llvmlite", "annotated_types"}
    import sys

    foreign = {name for path in sources("divergence") for name in imported(path)}
    assert foreign - allowed - sys.stdlib_module_names == set()


@pytest.mark.parametrize("layer", ["divergence", "trainer"])
def test_one_file_compiles(layer: str) -> None:
    """`njit` is called in divergence/jit.py alone: one set of flags, one cache."""
    users = []
    for path in sources(layer):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module == "numba":
                users += [path.name for alias in node.names if alias.name in ("njit", "jit")]
    assert users == (["jit.py"] if layer == "divergence" else [])


def test_no_pickle_anywhere() -> None:
    """Files are data, never code."""
    users = [
        path.relative_to(ROOT).as_posix()
        for layer in LAYERS
        for path in sources(layer)
        if {"pickle", "cloudpickle", "joblib", "dill", "marshal", "shelve"} & set(imported(path))
    ]
    assert users == []
