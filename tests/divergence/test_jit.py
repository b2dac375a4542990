"""The compiler's cache: never stale, and safe when processes compile at once."""

import ast
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import divergence
from divergence.jit import cache_dir, cache_folder, compiling, jit
from trainer.contract.checks import ANOTHER_CPU

ROOT = Path(divergence.__file__).parent.parent

# Compiles a small kernel of the project under the lock; prints its result and the cache folder.
COMPILE = """
import numpy as np
from divergence.jit import cache_dir, compiling
from trainer.initial_vectors import _fill
keys, out = np.arange(3, dtype=np.uint64), np.empty((3, 4), np.float32)
with compiling():
    _fill(keys, out, 0.5)
print(repr(out.tobytes().hex()), cache_dir(), _fill.stats.cache_hits.__len__())
"""

# A kernel that calls a hook, as the training kernel does, but which compiles quickly.
KERNEL = """
from divergence.jit import jit
from divergence.lanemath import f32
from divergence.rules.hooks import move
from divergence.simd import lane_sum, splat
@jit
def moved(rule):
    one = splat(f32(1.0))
    return lane_sum(move(rule, one, one, one, one, one))
"""
# Calls it with a rule of the user's own and with one of ours; prints results and cache hits.
FOREIGN = """
from divergence.rules import make_rule
from kernel import moved
from mine import Mine
print(moved(Mine()), moved(make_rule("none")), sum(moved.stats.cache_hits.values()))
"""
MINE = """
from typing import NamedTuple
from divergence.lanemath import f32
from divergence.simd import splat
class Mine(NamedTuple):
    def move(self, c, theta, g, eta0, denominator):
        return splat(f32({}))
"""


def folder_of(root: Path, package: str) -> Path:
    """The cache folder of a package, as a new process finds it with the code in `root`."""
    code = f"from divergence.jit import *; print(cache_folder(Path({str(root / package)!r})))"
    answer = subprocess.run(
        [sys.executable, "-P", "-c", code],
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=True,
    )
    return Path(answer.stdout.strip())


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    for package in ("divergence", "trainer"):
        shutil.copytree(
            ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__")
        )
    return tmp_path


@pytest.mark.slow
def test_any_change_of_a_source_is_another_folder(sources: Path) -> None:
    """A kernel of a package depends on that package and on `divergence`."""
    first = folder_of(sources, "trainer")
    assert first == cache_folder(ROOT / "trainer")
    seen = {first}
    for path in ("divergence/simd.py", "divergence/rules/l2.py", "trainer/stages.py"):
        with (sources / path).open("a") as file:
            file.write("# one comment more\n")
        seen.add(folder_of(sources, "trainer"))
    (sources / "trainer/setting.py").rename(sources / "trainer/settings.py")
    seen.add(folder_of(sources, "trainer"))
    assert len(seen) == 5


def test_other_files_change_nothing(sources: Path) -> None:
    (sources / "trainer" / "notes.txt").write_text("not a source")
    (sources / "orchestrator").mkdir()
    (sources / "orchestrator" / "other.py").write_text("'of another package'")
    assert folder_of(sources, "trainer") == cache_folder(ROOT / "trainer")


def test_the_folder_follows_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_dir() == tmp_path / "holdfast" / "kernels"
    assert cache_folder(ROOT / "trainer").parent == cache_dir()


def test_kernels_call_only_what_their_hash_covers() -> None:
    """A module with kernels, and what it imports of its folder, imports no other project code."""
    compiled = [
        path
        for package in ("trainer", "orchestrator")
        for path in (ROOT / package).rglob("*.py")
        if {"jit", "inlined"} & set(imported(path).get("divergence.jit", ()))
    ]
    assert {path.parent.name for path in compiled} == {"trainer", "simulator", "ab", "serving"}
    for path in compiled:
        todo, done = [path], set()
        while todo:
            done.add(module := todo.pop())
            for name in imported(module):
                if name.split(".")[0] in ("trainer", "orchestrator", "scripts"):
                    file = ROOT.joinpath(*name.split(".")).with_suffix(".py")
                    assert file.parent == path.parent, f"{module} imports {name}"
                    todo += [file] if file not in done else []


def imported(path: Path) -> dict[str, list[str]]:
    """The modules that a file imports from, and the names that it takes."""
    nodes = ast.walk(ast.parse(path.read_text()))
    return {
        str(node.module): [alias.name for alias in node.names]
        for node in nodes
        if isinstance(node, ast.ImportFrom)
    }


@pytest.mark.slow
def test_a_foreign_rule_is_never_stale(tmp_path: Path) -> None:
    """A rule outside `divergence` is compiled by every process, and its last edit counts."""
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels/kernel.py").write_text(KERNEL)
    answers = []
    for value in (1.5, 2.5):
        (tmp_path / "mine.py").write_text(MINE.format(value))
        path = os.pathsep.join([str(ROOT), str(tmp_path), str(tmp_path / "kernels")])
        answer = subprocess.run(
            [sys.executable, "-P", "-B", "-c", FOREIGN],
            env={**os.environ, "XDG_CACHE_HOME": str(tmp_path), "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=True,
        )
        answers.append(answer.stdout.split())
    assert answers == [["12.0", "0.0", "0"], ["20.0", "0.0", "1"]]  # ours is found again


@pytest.mark.slow
def test_two_processes_compile_at_once(tmp_path: Path, sources: Path) -> None:
    """Both finish with the same bits; a third, with the same code in another folder, loads them."""

    def start(code: Path) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-P", "-c", COMPILE],
            env={**os.environ, "XDG_CACHE_HOME": str(tmp_path), "PYTHONPATH": str(code)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    together = [start(ROOT), start(ROOT)]
    answers = [process.communicate(timeout=120) for process in together]
    later = start(sources).communicate(timeout=120)
    for out, err in (*answers, later):
        assert err == ""
        assert out.split()[0] == answers[0][0].split()[0]
        assert Path(out.split()[1]) == tmp_path / "holdfast" / "kernels"
    assert later[0].split()[2] == "1"  # loaded, not compiled
    assert sorted(int(out.split()[2]) for out, _ in answers) == [0, 1]


@pytest.mark.slow
def test_code_for_one_cpu_is_not_served_to_another(tmp_path: Path) -> None:
    """A shared cache folder keeps CPUs apart; each finds its own code again."""

    def hits(**cpu: str) -> str:
        environment = {"XDG_CACHE_HOME": str(tmp_path), "PYTHONPATH": str(ROOT), **cpu}
        run = [sys.executable, "-P", "-c", COMPILE]
        answer = subprocess.run(
            run, env={**os.environ, **environment}, capture_output=True, text=True, check=True
        )
        return answer.stdout.split()[2]

    assert [hits(), hits(**ANOTHER_CPU), hits(**ANOTHER_CPU), hits()] == ["0", "0", "1", "1"]


@pytest.mark.slow
def test_the_lock_is_held_by_one_at_a_time(tmp_path: Path) -> None:
    """A second process that wants the lock waits until the first lets go."""
    script = (
        "import sys, time\n"
        "from divergence.jit import compiling\n"
        "with compiling():\n"
        "    print('in', time.monotonic(), flush=True)\n"
        "    time.sleep(0.3)\n"
        "    print('out', time.monotonic(), flush=True)\n"
    )
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", script], env=environment, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    spans = []
    for process in processes:
        words = process.communicate(timeout=120)[0].split()
        spans.append((float(words[1]), float(words[3])))
    (_, first_out), (second_in, _) = sorted(spans)
    assert second_in >= first_out


def test_the_lock_is_let_go_after_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # nobody else compiles there
    with pytest.raises(RuntimeError, match=r"^midway$"), compiling():
        raise RuntimeError("midway")
    begin = time.monotonic()
    with compiling():
        assert time.monotonic() - begin < 10


def test_not_a_number_is_seen_and_zero_may_be_divided_by() -> None:
    """No fast-math: a compiled check for NaN is a check for NaN."""

    @jit
    def looks(x):  # type: ignore[no-untyped-def]
        return np.isnan(x[0]), np.isfinite(x[1]), x[2] / x[3]

    assert looks(np.array([np.nan, np.inf, 1.0, 0.0])) == (True, False, np.inf)
