"""A rule of the user's own in a config: found where the user says, recorded, never run unasked."""

import os
import pickle
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from operator import attrgetter
from pathlib import Path

import pytest

from divergence import own_code
from divergence.errors import InputError
from divergence.own_code import load_rule_class
from orchestrator.config.file import config_text, load_config, read_config
from orchestrator.config.rules import any_kernel_rule, initial_mu, kernel_rule, searched
from orchestrator.config.schema import config_hash
from orchestrator.config.space import space_of
from orchestrator.search.sampler import SearchState, ask, cycle_rng, draw_quantiles
from trainer.setting import Setting

ROOT = Path(__file__).parents[2]
RULE = """
from typing import Annotated, NamedTuple
from annotated_types import Gt
from own_limits import DEFAULT
class Clip(NamedTuple):
    c: Annotated[float, Gt(0)] = DEFAULT
    hard: bool = False
"""
CONFIG = """
source: {{kind: simulator}}
search: {{instances: 8}}
arms:
  - {{name: a, rule: none}}
  - {{name: b, rule: {rule}}}
"""


@pytest.fixture
def code(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "own_rules.py").write_text(RULE)
    (tmp_path / "own_limits.py").write_text("DEFAULT = 2.5\n")
    own_code.allow([tmp_path])
    yield tmp_path
    own_code.allow([])


def refusal(rule: str) -> str:
    with pytest.raises(InputError) as caught:
        read_config(CONFIG.format(rule=rule), "run.yaml")
    return str(caught.value)


@pytest.mark.usefixtures("code")
def test_a_number_is_fixed_or_searched() -> None:
    fixed = read_config(CONFIG.format(rule="own_rules:Clip"), "run.yaml").arms[1].rule
    assert (searched(fixed), any_kernel_rule(fixed)) == ((), (2.5, False))
    config = read_config(
        CONFIG.format(rule='{name: "own_rules:Clip", c: {low: 1, high: 5}}'), "run.yaml"
    )
    rule = config.arms[1].rule
    assert searched(rule) == ("c",)
    draws = draw_quantiles(config, 0, cycle_rng(0, 0))
    state = SearchState(Setting(1.0, 1.0, 0.5, others={"c": 2.0}))
    for settings in (
        ask(config.search, space_of(config, config.arms[1], 1.0), s, draws)
        for s in (SearchState(), state)
    ):
        values = [kernel_rule(rule, setting).c for setting in settings]
        assert len(set(values)) > 4
        assert all(1 <= c <= 5 for c in values)
    assert settings[0].others == {"c": 2.0}
    other = read_config(CONFIG.format(rule="none"), "run.yaml")
    assert (draw_quantiles(other, 0, cycle_rng(0, 0)) == draws[:, :6]).all()


@pytest.mark.usefixtures("code")
@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ('{name: "own_rules:Clip", c: {low: 0, high: 5, log: false}}',
         "arms.1.rule.c (arm b): every value must be > 0, but is 0.0"),
        ('{name: "own_rules:Clip", c: -1}',
         "arms.1.rule.c (arm b): should be greater than 0, but is -1"),
        ('{name: "own_rules:Clip", d: 1}', "arms.1.rule.d (arm b): unknown key"),
        ("own_rules:Clop", "own_rules.py: has no Clop"),
        ("own_limits:DEFAULT", "own_limits:DEFAULT: must be a class Name(NamedTuple)"),
    ],
)  # fmt: skip
def test_mistakes_are_one_line(rule: str, told: str) -> None:
    assert told in refusal(rule)
    assert "\n" not in refusal(rule)


def test_errors_of_the_module_name_its_line(code: Path) -> None:
    (code / "own_bad.py").write_text("import math\nmath.sqrt(-1)\n")
    assert "own_bad.py: line 2: ValueError" in refusal("own_bad:Clip")
    (code / "own_hook.py").write_text(RULE + "    def mov(self): pass\n")
    assert "own_hook:Clip: mov is not a hook" in refusal("own_hook:Clip")
    (code / "own_names.py").write_text(RULE + "    def ascend(self, m, s): pass\n")
    assert "ascend: its arguments must be named (self, mu, msqr)" in refusal("own_names:Clip")
    (code / "json.py").write_text(RULE)
    assert "Python has another module json already: rename yours" in refusal("json:Clip")


@pytest.mark.parametrize("edited", [False, True])
def test_a_process_that_works_in_the_folder_of_the_code_finds_it(code: Path, edited: bool) -> None:
    """Python itself finds the module there: trainer processes of `holdfast run --code .` do."""
    rule = load_rule_class("own_rules:Clip")(c=2.0)
    if edited:  # while the run goes on: a new process gets what the run started with
        (code / "own_rules.py").write_text("raise SystemExit('the edited module ran')\n")
    sent = pickle.dumps(rule).hex()
    program = f"import pickle; print(pickle.loads(bytes.fromhex('{sent}')).c)"
    path = os.pathsep.join((str(code), str(Path(__file__).parents[2])))
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=code, env={**os.environ, "PYTHONPATH": path},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "2.0\n", "")


def test_nothing_runs_that_the_user_has_not_named(code: Path, tmp_path: Path) -> None:
    """A run folder is readable without its code, and its module is not imported."""
    config = read_config(CONFIG.format(rule='{name: "own_rules:Clip", c: {low: 1, high: 5}}'), "c")
    text = config_text(config)
    own_code.allow([])
    unseen = read_config(text, "c")
    assert "own_rules" not in sys.modules
    assert config_text(unseen) == text
    assert config_hash(unseen) == config_hash(config)
    with pytest.raises(InputError, match=r"own_rules:Clip is code of your own.*--code FOLDER"):
        any_kernel_rule(unseen.arms[1].rule)
    path = tmp_path / "own.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=r"own.yaml: arms.1.rule .arm b.: own_rules:Clip is code"):
        load_config(str(path))


@pytest.mark.parametrize("file", ["own_rules.py", "own_limits.py"])
def test_changed_code_is_noticed(code: Path, file: str) -> None:
    """Also that of a module which the rule's module imports."""
    text = config_text(read_config(CONFIG.format(rule="own_rules:Clip"), "c"))
    with (code / file).open("a") as changed:
        changed.write("# changed\n")
    own_code.allow([code])
    with pytest.raises(
        InputError, match=r"arms.1.rule.code .arm b.: the code of own_rules:Clip has chang"
    ):
        read_config(text, "c")


def test_a_rule_brings_its_code_to_another_process(code: Path) -> None:
    """One that has neither the folder nor the module."""
    rule = any_kernel_rule(read_config(CONFIG.format(rule="own_rules:Clip"), "c").arms[1].rule)
    with ProcessPoolExecutor(1, get_context("spawn")) as another:
        shown = another.submit(repr, rule).result()
        module = another.submit(attrgetter("__class__.__module__"), rule).result()
    assert re.fullmatch(r"Clip_\w+\(c=2.5, hard=False\)", shown)
    assert module == "own_rules"


def test_the_parameters_of_an_unseen_rule_may_be_anything() -> None:
    """A stranger's run folder: no traceback, and no import."""
    rule = '{name: "json:tool", mu_floor: x, mu_ceiling: [1], mu0: {a: b}, rho: 1}'
    found = read_config(CONFIG.format(rule=rule), "c").arms[1].rule
    assert (initial_mu(found), searched(found)) == (0.0, ())
