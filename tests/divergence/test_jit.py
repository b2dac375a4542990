"""The compiler's cache: never stale, and safe when processes compile at once."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import divergence.jit as jit_module
from divergence.jit import PACKAGES, ROOT, cache_dir, compiling, jit

# Compiles a small kernel of the project under the lock, then prints its sum and the cache folder.
COMPILE = """
import numpy as np
from divergence.jit import cache_dir, compiling
from trainer.draw import _fill
keys, out = np.arange(3, dtype=np.uint64), np.empty((3, 4), np.float32)
with compiling():
    _fill(keys, out, 0.5)
print(repr(out.tobytes().hex()), cache_dir(), _fill.stats.cache_hits.__len__())
"""


def fresh_cache_dir(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(jit_module, "ROOT", root)
    cache_dir.cache_clear()
    try:
        return cache_dir()
    finally:
        monkeypatch.undo()
        cache_dir.cache_clear()


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    for package in PACKAGES:
        shutil.copytree(
            ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__")
        )
    return tmp_path


def test_any_change_of_a_source_is_another_folder(
    sources: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = fresh_cache_dir(sources, monkeypatch)
    assert first == fresh_cache_dir(ROOT, monkeypatch)
    seen = {first}
    for path in ("divergence/simd.py", "divergence/rules/l2.py", "trainer/stages.py"):
        with (sources / path).open("a") as file:
            file.write("# one comment more\n")
        seen.add(fresh_cache_dir(sources, monkeypatch))
    (sources / "divergence/rules/l2.py").rename(sources / "divergence/rules/l3.py")
    seen.add(fresh_cache_dir(sources, monkeypatch))
    assert len(seen) == 5


def test_what_is_no_source_changes_nothing(sources: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = fresh_cache_dir(sources, monkeypatch)
    (sources / "trainer" / "notes.txt").write_text("no source")
    assert fresh_cache_dir(sources, monkeypatch) == first


def test_the_folder_follows_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert fresh_cache_dir(ROOT, monkeypatch).parent == tmp_path / "holdfast"


@pytest.mark.slow
def test_two_processes_compile_at_once(tmp_path: Path, sources: Path) -> None:
    """Both end well with the same bits; a third, of the same code elsewhere, finds its kernels."""

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
        assert Path(out.split()[1]).parent == tmp_path / "holdfast"
    assert later[0].split()[2] == "1"  # loaded, not compiled
    assert sorted(int(out.split()[2]) for out, _ in answers) == [0, 1]


@pytest.mark.slow
def test_the_lock_is_held_by_one_at_a_time(tmp_path: Path) -> None:
    """A second process that wants the lock waits until the first lets go."""
    script = (
        "import sys, time\n"
        "from divergence.jit import compiling\n"
        "with compiling():\n"
        "    print('in', time.monotonic(), flush=True)\n"
        "    time.sleep(1.0)\n"
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


def test_the_lock_is_let_go_after_an_error() -> None:
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
