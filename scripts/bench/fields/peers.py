"""The learners of the field: where each is, what is searched of it, and how it is set up."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from itertools import product
from pathlib import Path

from scripts.bench.fields.learner import FieldSetting, Opening, Stepping
from scripts.bench.fields.programs import program_version

HOT = 10
"""The step size is multiplied by this to see what happens."""


@dataclass(frozen=True, slots=True)
class FieldPeer:
    """A learner."""

    name: str
    """In file names."""
    title: str
    """In tables."""
    function: str
    """`module.function` in this folder: from an Opening to a Learner."""
    how: str
    """Sentences for the page: how it is set up, and what its time includes."""
    step: str = ""
    """The parameter that is its step size; none if it finds its own settings."""
    steps: tuple[float, ...] = ()
    """The step sizes that are tried, each twice the one before."""
    other: tuple[str, tuple[float | str, ...]] = ("", ())
    """Its main other parameter, and the two values that are tried."""
    package: str = ""
    program: str = ""
    """The option that names its program, if it is one."""
    ours: bool = False
    cost_us: float = 3.0
    """About what an event takes with everything, in microseconds: for estimates of time alone."""

    @property
    def settings(self) -> list[FieldSetting]:
        """What is searched."""
        if not self.step:
            return [{}]
        name, values = self.other
        return [{self.step: step, name: value} for step, value in product(self.steps, values)]

    def hot(self, setting: FieldSetting) -> FieldSetting:
        """The setting with ten times its step size."""
        return {**setting, self.step: HOT * float(setting[self.step])}

    def at_edge(self, setting: FieldSetting) -> bool:
        """Whether a better step size may lie beyond those that were tried."""
        return bool(self.step) and setting[self.step] in (self.steps[0], self.steps[-1])

    def version(self, programs: Mapping[str, str]) -> str:
        """Of its package or program; empty if there is none here."""
        if self.program:
            path = programs.get(self.program)
            return program_version(Path(path)) if path else ""
        try:
            return f"{self.package} {version(self.package)}"
        except PackageNotFoundError:
            return ""

    @property
    def install(self) -> str:
        """What makes it available."""
        if self.program:
            return f"--{self.program.replace('_', '-')} PATH"
        return f"scripts/setup.sh {'--torch' if self.package == 'torch' else '--peers'}"

    def open(self, opening: Opening) -> Stepping:
        """A learner that has seen nothing."""
        module, _, function = self.function.partition(".")
        made: Callable[[Opening], Stepping]
        made = getattr(import_module(f"scripts.bench.fields.{module}"), function)
        return made(opening)


def _doubled(first: float) -> tuple[float, ...]:
    return tuple(first * 2**i for i in range(6))


PEERS = (
    FieldPeer(
        "holdfast",
        "OFFSET, rule `holdfast`",
        "offset.bounded",
        "One instance with a fixed setting, beta 0.7; the bound and the model's shape are the "
        "defaults. Its time includes compiling Arrow tables, gathering rows and writing them back.",
        "eta0",
        _doubled(0.15),
        ("alpha", (0.3, 1.0)),
        package="holdfast",
        ours=True,
    ),
    FieldPeer(
        "none",
        "OFFSET, rule `none`",
        "offset.plain",
        "The same instance with nothing that bounds it. Where it diverges, it skips the chunk.",
        "eta0",
        _doubled(0.15),
        ("alpha", (0.3, 1.0)),
        package="holdfast",
        ours=True,
    ),
    FieldPeer(
        "lineages",
        "OFFSET, `select: lineages` (16 instances)",
        "offset.OffsetLines",
        "What a run of Holdfast serves: 16 instances on this one core, which find their settings "
        "on the stream itself, so that nothing was searched before. Its time includes scoring.",
        package="holdfast",
        ours=True,
        cost_us=18.0,
    ),
    FieldPeer(
        "libffm-online",
        "libFFM, online",
        "libffm.online",
        "`ffm-train -t 1` with its shuffle removed from the source: one pass in event order. Every "
        "event also has one constant value, since libFFM has no bias. The program always starts "
        "anew, so it goes through all events so far after each chunk; its throughput is that of "
        "such a pass, with parsing its text file.",
        "r",
        _doubled(0.05),
        ("k", (4, 8)),
        program="libffm_online",
        cost_us=65.0,
    ),
    FieldPeer(
        "libffm",
        "libFFM, as shipped",
        "libffm.shipped",
        "With the same constant value. It learns in random order, in several iterations, and "
        "always from the beginning: after the second chunk and every fourth from there on it is "
        "trained on all events so far, the number of iterations by `--auto-stop` on the latest "
        "chunk. Its throughput is events of the stream by the time "
        "of all these trainings, parsing included.",
        "r",
        _doubled(0.0125),
        ("k", (4, 8)),
        program="libffm",
        cost_us=160.0,
    ),
    FieldPeer(
        "lightfm",
        "LightFM",
        "light_fm.light_fm",
        "Logistic loss, Adagrad, `fit_partial` with one epoch for each chunk, whose events it "
        "shuffles. Gets sparse matrices, so nothing is parsed.",
        "learning_rate",
        _doubled(0.0125),
        ("components", (10, 30)),
        package="lightfm-next",
        cost_us=5.0,
    ),
    FieldPeer(
        "vw-lrq",
        "Vowpal Wabbit `--lrq`",
        "vw.lrq",
        "One namespace for users and one for ads, `--l2 1e-6`, default updates, event by event. "
        "Its time includes parsing its text format.",
        "learning_rate",
        _doubled(0.03),
        ("rank", (7, 14)),
        package="vowpalwabbit",
        cost_us=47.0,
    ),
    FieldPeer(
        "vw-coin",
        "Vowpal Wabbit `--coin`",
        "vw.coin",
        "It has no step size: `--ftrl_alpha`, what it bets with at first, takes its place. Linear, "
        "or with all products of user and ad values (`-q`). Its time includes parsing.",
        "ftrl_alpha",
        _doubled(2.0),
        ("products", ("none", "pairs")),
        package="vowpalwabbit",
        cost_us=32.0,
    ),
    FieldPeer(
        "river",
        "River `FMClassifier`",
        "river_fm.river_fm",
        "10 factors, event by event, in Python. Gets dictionaries, so nothing is parsed.",
        "lr",
        _doubled(0.0125),
        ("optimizer", ("SGD", "AdaGrad")),
        package="river",
        cost_us=490.0,
    ),
    FieldPeer(
        "torch",
        "PyTorch FM, dense Adagrad",
        "torch_fm.torch_fm",
        "10 factors, mini-batches in event order. Gets tensors, so nothing is parsed.",
        "lr",
        _doubled(0.0125),
        ("batch", (32, 256)),
        package="torch",
        cost_us=32.0,
    ),
    FieldPeer(
        "fwumious",
        "Fwumious Wabbit",
        "fwumious.fwumious",
        "FFM of all fields beside the linear part, as in its FFM example. Its time includes "
        "parsing, and reading and writing its model for each chunk.",
        "learning_rate",
        _doubled(0.0125),
        ("ffm_k", (4, 8)),
        program="fwumious",
        cost_us=60.0,
    ),
)
BY_NAME = {peer.name: peer for peer in PEERS}
