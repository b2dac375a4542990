import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from orchestrator import cli
from orchestrator.commands import COMMANDS
from orchestrator.commands.config import time_line
from orchestrator.config.file import read_config
from orchestrator.journal.journal import commit, record_path
from orchestrator.journal.run_folder import prepare
from orchestrator.offline.cycle_time import CycleTime
from orchestrator.storage.local_store import LocalStore
from support.configs import MINIMAL, SMALL, config, small
from support.records import record
from support.runs import go_here
from support.small_run import SmallRun

ROOT = Path(__file__).parents[2]


class Ran:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err


Holdfast = Callable[..., Ran]


@pytest.fixture
def holdfast(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Holdfast:
    def run(*arguments: str) -> Ran:
        monkeypatch.setattr(sys, "argv", ["holdfast", *arguments])
        code = 0
        try:
            cli.main()
        except SystemExit as end:
            code = int(end.code or 0)
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return run


@pytest.fixture
def run_yaml(tmp_path: Path) -> Path:
    """With a geometry and rule whose kernel many tests use: `holdfast config` measures it."""
    path = tmp_path / "run.yaml"
    path.write_text(SMALL)
    return path


def test_config_prints_the_resolved_config(holdfast: Holdfast, run_yaml: Path) -> None:
    ran = holdfast("config", str(run_yaml), "--set", "seed=7")
    assert ran.code == 0
    assert read_config(ran.out, "out") == config(SMALL, "seed=7")
    assert not [key for key in ("family: null", "rho: null", "lam: null") if key in ran.out]
    assert ran.err.count("\n") == 1
    assert " a cycle (training only), plus the driver's own time (" in ran.err
    assert holdfast("config", str(run_yaml), "--no-time").err == ""


def test_config_says_how_long_a_cycle_takes(holdfast: Holdfast, run_yaml: Path) -> None:
    sizes = ("--set", "search.instances=40", "--events", "50000", "--cores", "16")
    [line] = holdfast("config", str(run_yaml), *sizes, "--price", "0.04").err.splitlines()
    assert line.startswith("holdfast: 40 instances × 2 arms × 50,000 events on 16 cores: ")
    assert " a cycle (training only), plus the driver's own time (some 0.12 s for 50,000 " in line
    assert "; at 0.04 per core hour, 16 cores that stay up cost 0.64 an hour, 108 a week; " in line
    assert "nothing to do" not in line
    assert line.endswith("µs per event and instance on this machine")


@pytest.mark.parametrize(
    ("arms", "cores", "warning"),
    [
        (1, 80, "; 64 cores have nothing to do: search.instances is 16;"),
        (2, 33, "; 1 core has nothing to do: search.instances × arms is 32;"),
        (2, 32, ""),
    ],
)
def test_cores_without_work_are_named(arms: int, cores: int, warning: str) -> None:
    line = time_line(CycleTime(16, arms, 20_000, cores, 1e-5), "", None)
    assert warning in line
    assert ("nothing to do" in line) == bool(warning)
    assert ": about 0.2 s a cycle (training only)" in line


def test_cores_are_paid_while_they_wait() -> None:
    line = time_line(CycleTime(80, 1, 20_000, 80, 1e-6), "", 0.04)
    assert ": less than 0.1 s a cycle" in line
    assert "80 cores that stay up cost 3.2 an hour, 538 a week; training alone costs 0.02 " in line


def test_config_assumes_a_number_of_events_where_the_source_has_none(
    holdfast: Holdfast, run_yaml: Path
) -> None:
    run_yaml.write_text(
        "source: {kind: files, path: x.csv, cut: {minutes: 15}}\n"
        "features: {user: [a, b, c], ad: [d, e]}\narms: [{name: a, rule: l2}]\nactors: 3\n"
    )
    ran = holdfast("config", str(run_yaml))
    assert "16 instances × 20,000 events (assumed: --events N) on 3 cores: " in ran.err


def test_a_users_mistakes_are_a_line_each_and_code_2(holdfast: Holdfast, run_yaml: Path) -> None:
    run_yaml.write_text(MINIMAL + "seed: -1\ncycles: x\n")
    ran = holdfast("config", str(run_yaml))
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.splitlines() == [
        f"holdfast: {run_yaml}:3: seed: should be greater than or equal to 0, but is -1",
        f'holdfast: {run_yaml}:4: cycles: should be a valid integer, but is "x"',
    ]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("confg",), "No such command 'confg'. Did you mean 'config'? See holdfast --help."),
        (("config",), "Missing argument 'CONFIG'. See holdfast config --help."),
        (("log", "x", "--last", "0"), "Invalid value for '--last': 0 is not in the range x>=1."),
        (("log", "/no/run"), "/no/run: not a run folder: it has no config.yaml"),
        (("log", "nope://run"), "nope://run: cannot be opened: Protocol not known: nope"),
    ],
)
def test_a_wrong_command_is_one_line_and_code_2(
    holdfast: Holdfast, arguments: tuple[str, ...], told: str
) -> None:
    ran = holdfast(*arguments)
    assert (ran.code, ran.out, len(ran.err.splitlines())) == (2, "", 1)
    assert ran.err.startswith(f"holdfast: {told}")


def test_mistakes_in_a_run_are_one_line_and_code_2(holdfast: Holdfast, tmp_path: Path) -> None:
    config = tmp_path / "run.yaml"
    config.write_text(SMALL)
    for arguments, message in [
        (["run", tmp_path / "none.yaml"], "none.yaml: cannot be read: No such file or directory"),
        (["run", config, "--set", "tries=0"], "tries: should be greater than or equal to 1"),
        (["run", config, "--wrong"], "No such option"),
        (["run", config, "--out", tmp_path / "no", "--resume"], "cannot resume: not a run folder"),
        (
            ["replay", tmp_path, "--cycle", "0", "--instance", "0"],
            "not a run folder: it has no config.yaml",
        ),
    ]:
        ran = holdfast(*map(str, arguments))
        assert (ran.code, len(ran.err.splitlines())) == (2, 1), ran.err
        assert message in ran.err


def test_fewer_cycles_than_there_are_and_a_cycle_that_there_is_not(
    holdfast: Holdfast, tmp_path: Path
) -> None:
    path, where = tmp_path / "run.yaml", tmp_path / "run"
    path.write_text(SMALL)
    go_here(small("cycles=2"), where)
    ran = holdfast("run", str(path), "--out", str(where), "--set", "cycles=1")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines() == [
        "cycles: 1 has no effect: the run has 2 already",
        f"complete with 2 cycles in {where}",
    ]
    ran = holdfast("replay", str(where), "--cycle", "7", "--instance", "0")
    assert ran.code == 2
    assert "--cycle 7: must be a committed cycle: production has cycles 0 to 1" in ran.err


def test_help_and_version(holdfast: Holdfast) -> None:
    for arguments in (["--help"], ["config", "--help"], ["log", "--help"]):
        ran = holdfast(*arguments)
        assert ran.code == 0
        assert "Example" in ran.out
    assert holdfast("--version").out.startswith("holdfast, version ")
    assert holdfast().code == 2


def test_log_lists_the_cycles_and_what_is_damaged(holdfast: Holdfast, tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "run")
    prepare(store, config(MINIMAL, "cycles=4"))
    assert "no cycle is committed yet" in holdfast("log", store.uri).err
    for cycle in range(3):
        commit(store, [record(arm, cycle) for arm in ("a", "b")])
    (store.root / record_path("a", 1)).write_bytes(b"torn")
    told = holdfast("log", store.uri).out.splitlines()
    assert told[0] == "journal/a/cycle-000001.json: corrupt: not a complete record"
    assert [text.split()[:3] for text in told[1:3]] == [["cycle", "0", "(1"]] * 2
    assert len(told) == 6
    last = holdfast("log", store.uri, "--last", "1", "--json").out.splitlines()
    assert [json.loads(text).get("cycle") for text in last] == [None, 2, 2]


def test_a_folder_without_permission_is_one_line(
    holdfast: Holdfast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(13, "Permission denied", str(tmp_path))

    monkeypatch.setattr(LocalStore, "open", refused)
    ran = holdfast("log", str(tmp_path))
    assert (ran.code, ran.err) == (2, f"holdfast: {tmp_path}: Permission denied\n")


def test_a_bug_of_ours_is_not_hidden(
    holdfast: Holdfast, run_yaml: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("orchestrator.commands.config.load_config", broken)
    with pytest.raises(ZeroDivisionError):
        holdfast("config", str(run_yaml))


def test_help_imports_nothing_heavy() -> None:
    """It takes a fifth of a second, of which Python and click are the most."""
    code = (
        "import sys; sys.argv = ['holdfast', '--help']\n"
        "from orchestrator.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'ray', 'numba', 'pandas', 'pyarrow', 'numpy', 'pydantic', 'matplotlib', 'rich'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.splitlines()[-1] == "[]"
    assert "  serve " in done.stdout


def test_the_list_of_commands_says_what_each_says_itself() -> None:
    modules = {path.stem for path in (ROOT / "orchestrator/commands").glob("[a-z]*.py")}
    assert set(COMMANDS) == modules - {"options"}
    for name, text in COMMANDS.items():
        command = cli.holdfast.get_command(click.Context(cli.holdfast), name)
        assert command is not None
        assert command.name == name
        assert command.get_short_help_str(1000) == click.Command(
            name, help=text
        ).get_short_help_str(1000)


def test_score_shows_all_mistakes_in_the_columns_at_once(
    holdfast: Holdfast, run: SmallRun, tmp_path: Path
) -> None:
    run.play()
    events = tmp_path / "bad.csv"
    events.write_text("agee,gender,device,campaigns,category\n20,f,tv,c,x\n")
    ran = holdfast("score", run.store.uri, str(events))
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.splitlines() == [
        f"holdfast: {events}: no column 'age'; did you mean 'agee'?",
        f"holdfast: {events}: no column 'campaign'; did you mean 'campaigns'?",
    ]
