"""A run that is really trained and committed, cycle by cycle, in this process: no Ray is needed.

Its shape and rule are those of the loop's tests, whose compiled kernels are found again.
"""

import math
from pathlib import Path

from orchestrator.config.file import config_text, read_config
from orchestrator.config.schema import Retention, RunConfig, config_hash, feature_spec
from orchestrator.journal.models import model_config
from orchestrator.journal.record import ChunkInfo, CycleRecord
from orchestrator.loop.arm_state import ArmState, open_arms
from orchestrator.loop.committer import Committer, PendingCommit
from orchestrator.pool.messages import ArmResult, Batch
from orchestrator.pool.trainer_actor import TrainerActor
from orchestrator.search.sampler import draw, generator
from orchestrator.search.selection import select
from orchestrator.sources.opening import open_source
from orchestrator.storage.local_store import LocalStore
from orchestrator.storage.store import Store
from trainer.chunk import compile_chunk
from trainer.instance import Job

TEXT = """
seed: 3
source: {kind: simulator, preset: stormy, events_per_cycle: 300, users: 2000, ads: 100}
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
        self.store.create("config.yaml", config_text(self.config).encode())
        self.source = open_source(self.config.source, feature_spec(self.config.features))
        model = model_config(self.config, self.source.spec)
        self.line: ArmState = open_arms(self.config, model, self.store, {})["production"]
        job = Job(self.source.spec, self.line.model.shape, self.config.model.tau)
        self.trainer = TrainerActor(job, [self.line.sample_rule])
        self.committer = Committer(self.store, Retention())
        self.cycle = 0

    def play(self) -> CycleRecord:
        """Train and commit the next cycle."""
        cycle, self.cycle = self.cycle, self.cycle + 1
        events = self.source.events(cycle)
        assert events is not None
        chunk = compile_chunk(events.table, self.source.spec)
        draws = draw(self.config, cycle, generator(self.config.seed, cycle))
        plan = self.line.plan(cycle, chunk, draws, None)
        order = Batch(cycle, "production", plan.tasks, math.inf, self.trainer.number)
        reply = self.trainer.train(order, chunk, plan.working_set.tables)
        winner = select(reply.outcomes)
        assert winner is not None
        tables = self.trainer.export(cycle, "production", winner)
        self.line.learn(ArmResult("production", reply.outcomes, winner, tables, None))
        changes = self.line.take_over(cycle, chunk, plan.working_set, tables)
        draft = CycleRecord(
            driver="d", config_hash=config_hash(self.config), seed=3, arm="production",
            cycle=cycle, started="2024-05-01T12:00:00+00:00",
            chunk=ChunkInfo("here", len(chunk), 1, 0.1, {}), outcomes=reply.outcomes,
            winner=winner, model=(), served_logloss=None, norms=None, caution=0,
            search=self.line.search, timings={},
        )  # fmt: skip
        self.committer.take([PendingCommit(self.line, draft, changes)])
        [record] = self.committer.wait()
        return record
