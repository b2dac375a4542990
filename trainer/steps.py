"""An instance that trains as far as it is asked to, and can be looked at in between."""

import numpy as np
from numpy.typing import NDArray

from divergence.lanemath import CONSTANTS
from divergence.rules import Rule
from trainer.chunk import Chunk
from trainer.instance import Buffers, Job, warm_up
from trainer.kernel import Rates, Tables, train_block
from trainer.model import vectors_of
from trainer.setting import Setting
from trainer.static_shape import StaticShape


class Steps:
    """One instance: `done` events so far, with the bits of `train`."""

    def __init__(self, job: Job, chunk: Chunk, start: Tables, setting: Setting, rule: Rule) -> None:
        """Before the first event, on a copy of `start`."""
        warm_up(job, rule)
        buffers = Buffers()
        self.done = 0
        self.tables, self.margin = buffers.copy_of(start), buffers.margins(len(chunk))
        self.margin[:] = -1e30
        self.vectors = vectors_of(self.tables, job.shape)
        """Of the users and of the ads, as they are now."""
        self._job, self._chunk, self._rule = job, chunk, rule
        eta0, alpha, beta = setting.steps
        self._steps = float(eta0), float(alpha), float(beta)
        self._shape = StaticShape(job.shape)

    def until(self, last: int, level: float | np.float32 | None = None) -> int:
        """Train on the events before `last`; return the event after which it stopped early, or -1.

        It stops after an event that leaves an entry at `level` (tau if None) or beyond, and goes on
        from there when it is called again.
        """
        if self.done >= last:
            return -1
        job, chunk = self._job, self._chunk
        rates = Rates(*self._steps, float(job.tau if level is None else level), job.reference)
        stopped = int(
            train_block(chunk.click, chunk.users, chunk.ads, self.tables, self._shape, rates,
                        self._rule, self.done, last, self.margin, CONSTANTS)
        )  # fmt: skip
        self.done = last if stopped < 0 else stopped + 1
        return stopped

    def norms(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """The largest |entry| of these vectors: those of the users are numbered first."""
        users, ads = self.vectors
        found = np.empty(len(rows), np.float32)
        is_user = rows < len(users)
        found[is_user] = np.abs(users[rows[is_user]]).max(axis=1)
        found[~is_user] = np.abs(ads[rows[~is_user] - len(users)]).max(axis=1)
        return found


def vectors_in(chunk: Chunk, event: int) -> NDArray[np.int64]:
    """The vectors that an event updates, numbered as in `Steps.norms`."""
    (users, ads), first = (chunk.users, chunk.ads), len(chunk.user_keys)
    return np.concatenate(
        [
            users.row[users.start[event] : users.start[event + 1]],
            ads.row[ads.start[event] : ads.start[event + 1]] + first,
        ],
        dtype=np.int64,
    )
