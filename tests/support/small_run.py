"""A run that is really trained and committed, cycle by cycle, in this process: no Ray is needed.

Its shape and rule are those of the loop's tests, whose compiled kernels are found again.
"""

from pathlib import Path

from orchestrator.config.file import read_config
from orchestrator.config.schema import RunConfig, feature_spec
from orchestrator.journal.models import model_config, read_model
from orchestrator.journal.record import CycleRecord
from orchestrator.journal.run_folder import prepare
from orchestrator.loop.run import run
from orchestrator.pool.local_pool import LocalPool
from orchestrator.sources.opening import resolve_spec
from orchestrator.storage.local_store import LocalStore
from orchestrator.storage.store import Store
from trainer.model import Model

TEXT = """
seed: 3
source: {kind: simulator, preset: stormy, signal: faint, events_per_cycle: 300,
         users: 2000, ads: 100}
features: {user: [age, gender, device], ad: [campaign, category]}
model: {expire_after: 2}
search: {instances: 2, ranges: {eta0: 0.3, alpha: 3, beta: 0.5}, sampler: random}
arms: [{name: production, rule: {name: l2, lam: 0.001}}]
"""


class SmallRun:
    """The folder and its one arm."""

    def __init__(self, folder: Path, text: str = TEXT) -> None:
        self.store: Store = LocalStore(folder)
        self.config: RunConfig = read_config(text, "run.yaml")
        self.last: CycleRecord | None = None
        prepare(self.store, self.config)

    def play(self) -> CycleRecord:
        """Train and commit the next cycle."""
        committed: list[CycleRecord] = []
        cycles = 1 if self.last is None else self.last.cycle + 2
        config = self.config.model_copy(update={"cycles": cycles})
        run(config, self.store, prepare(self.store, config), [committed.extend], LocalPool)
        [self.last] = committed
        return self.last

    @property
    def model(self) -> Model:
        """The champion."""
        spec = resolve_spec(self.config.source, feature_spec(self.config.features))
        files = () if self.last is None else self.last.model
        return read_model(self.store, files, model_config(self.config, spec))
