"""Imports point one way, and only the files that need Ray or numba import them."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LAYERS = ("divergence", "trainer", "orchestrator", "scripts")
"""Each may import itself and those before it."""
PACKAGES = (
    "validation",
    "charts",
    "storage",
    "sources",
    "config",
    "search",
    "journal",
    "pool",
    "loop",
    "watch",
    "publish",
    "serving",
    "offline",
    "report",
    "track",
    "notebook",
    "export",
    "ab",
    "live",
    "commands",
    "cli",
    "__main__",
)
"""Of the orchestrator: each may import itself and those before it."""


def sources(layer: str) -> list[Path]:
    return sorted((ROOT / layer).rglob("*.py"))


@cache
def nodes(path: Path) -> list[ast.AST]:
    """The syntax tree of a file, read once for all tests."""
    return list(ast.walk(ast.parse(path.read_text())))


def modules(path: Path) -> Iterator[str]:
    """Everything that a file imports, wherever in the file, by its dotted name."""
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.relative_to(ROOT)}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def imported(path: Path) -> Iterator[str]:
    """The top-level names of everything that a file imports."""
    return (name.split(".")[0] for name in modules(path))


def package_of(path: Path) -> str:
    """The package of the orchestrator that a file belongs to."""
    return path.relative_to(ROOT / "orchestrator").parts[0].removesuffix(".py")


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


def test_every_package_of_the_orchestrator_has_its_place() -> None:
    assert {package_of(path) for path in sources("orchestrator")} - {"__init__"} == set(PACKAGES)
    flat = [path.name for path in (ROOT / "orchestrator").glob("*.py")]
    assert sorted(flat) == ["__init__.py", "__main__.py", "cli.py"]


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_of_the_orchestrator_import_one_way(package: str) -> None:
    allowed = set(PACKAGES[: PACKAGES.index(package) + 1])
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in sources("orchestrator")
        if package_of(path) == package
        for name in modules(path)
        if name.startswith("orchestrator.") and name.split(".")[1] not in allowed
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


def test_few_files_of_the_orchestrator_import_ray() -> None:
    """Only the pool, which runs on it, and the metrics, which it exports."""
    users = [path for path in sources("orchestrator") if "ray" in imported(path)]
    assert {package_of(path) for path in users} == {"pool", "watch"}
    assert len(users) <= 7


def test_divergence_is_of_use_without_the_rest() -> None:
    """numpy and numba (with its llvmlite) beside the standard library, and the bounds' names."""
    allowed = {"divergence", "numpy", "numba", "llvmlite", "annotated_types"}
    files = [path for path in sources("divergence") if "torch" not in path.parts[-2:-1]]
    foreign = {name for path in files for name in imported(path)}
    assert foreign - allowed - sys.stdlib_module_names == set()
    assert [path for path in files if "divergence.torch" in ".".join(modules(path))] == []


def test_divergence_torch_adds_pytorch_alone() -> None:
    files = sorted((ROOT / "divergence" / "torch").glob("*.py"))
    foreign = {name for path in files for name in imported(path)}
    assert foreign - sys.stdlib_module_names == {"divergence", "torch"}


def test_without_pytorch_one_line_says_what_to_install() -> None:
    code = "import sys; sys.modules['torch'] = None\nimport divergence.torch"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.splitlines()[-1] == (
        "ModuleNotFoundError: divergence.torch needs PyTorch: pip install 'holdfast[torch]'"
    )


@pytest.mark.parametrize("layer", ["divergence", "trainer"])
def test_one_file_compiles(layer: str) -> None:
    """`njit` is called in divergence/jit.py alone: one set of flags, one cache."""
    users = []
    for path in sources(layer):
        for node in nodes(path):
            if isinstance(node, ast.ImportFrom) and node.module == "numba":
                users += [path.name for alias in node.names if alias.name in ("njit", "jit")]
    assert users == (["jit.py"] if layer == "divergence" else [])


def test_optional_libraries_are_imported_where_they_are_used() -> None:
    """Not at the top of a file: they may be missing, and are slow to load."""
    users = [
        path.relative_to(ROOT).as_posix()
        for path in sources("orchestrator")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.Import | ast.ImportFrom)
        and any(name in ast.unparse(node) for name in ("tensorboard", "s3fs", "gcsfs", "IPython"))
    ]
    assert users == []


def test_no_pickle_anywhere() -> None:
    """Files are data, never code."""
    users = [
        path.relative_to(ROOT).as_posix()
        for layer in LAYERS
        for path in sources(layer)
        if {"pickle", "cloudpickle", "joblib", "dill", "marshal", "shelve"} & set(imported(path))
    ]
    assert users == []


def test_a_trainer_process_loads_only_what_training_needs() -> None:
    """A pool starts one for each core: what they load costs seconds and memory."""
    code = (
        "import orchestrator.pool.lines.trainer_actor, sys\n"
        "print(*{'pandas', 'pydantic', 'ray', 'orchestrator.config'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_no_two_classes_have_one_name() -> None:
    files: dict[str, list[str]] = {}
    for path in (path for layer in LAYERS for path in sources(layer)):
        for node in nodes(path):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                files.setdefault(node.name, []).append(path.relative_to(ROOT).as_posix())
    twice = {name: where for name, where in files.items() if len(where) > 1}
    assert twice == {}
