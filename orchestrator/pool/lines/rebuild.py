"""Make the models of lines again: from their bases, chunk by chunk, to the same bits."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orchestrator.pool.messages import Rebuild
from trainer.instance import Buffers
from trainer.lines import LineOptions
from trainer.outcome import Status
from trainer.protocol import AnyChunk, AnyLines, Trainer

Base = NDArray[np.uint8] | bytes | None
"""A snapshot; None: an empty model."""


BLOCK_BYTES = 1 << 22


class RebuildError(Exception):
    """A line does not train as it did before."""


def rebuild(
    trainer: Trainer,
    options: LineOptions,
    wanted: Sequence[tuple[Rebuild, Base]],
    chunk_of: Callable[[int], AnyChunk],
    buffers: Buffers,
) -> AnyLines:
    """The lines as they are after the last of their steps. Each joins at the cycle of its base."""
    lines: AnyLines = trainer.lines(options)
    waiting = sorted(wanted, key=lambda pair: pair[0].since, reverse=True)
    cycles = sorted({step.cycle for one, _ in wanted for step in one.steps})
    steps = {(one.line, step.cycle): step for one, _ in wanted for step in one.steps}

    def join_before(cycle: float) -> None:
        joined: list[tuple[Base, int]] = []
        while waiting and waiting[-1][0].since < cycle:
            one, base = waiting.pop()
            twin = next((line for other, line in joined if _same(other, base)), None)
            if base is None:
                lines.add_new(one.line)
            elif twin is not None:  # to read a file takes much longer than to copy rows
                lines.copy(one.line, twin)
            else:
                lines.load(one.line, trainer.load(base, f"line {one.line}"))
            joined.append((base, one.line))

    for cycle in cycles:
        join_before(cycle)
        chunk = chunk_of(cycle)

        def again(line: int, tables: Any, cycle: int = cycle, chunk: AnyChunk = chunk) -> bool:
            step = steps[line, cycle]
            if step.setting is None or step.rule is None:
                return False
            trained = trainer.train(
                chunk, tables, step.setting, step.rule, buffers=buffers, in_place=True
            )
            if trained.outcome.status is not Status.RETAINED:
                raise RebuildError(
                    f"line {line} {trained.outcome.status} in cycle {cycle} when trained again"
                )
            return True

        lines.see(chunk, cycle, again, buffers)
    join_before(float("inf"))
    return lines


def _same(base: Base, other: Base) -> bool:
    """Whether two bases are one file."""
    if base is None or other is None:
        return False
    one, two = (np.frombuffer(data, np.uint8) for data in (base, other))
    if len(one) != len(two):
        return False
    if one.ctypes.data == two.ctypes.data:  # Ray gives each reference an array of its own
        return True
    blocks = (slice(i, i + BLOCK_BYTES) for i in range(0, len(one), BLOCK_BYTES))
    return all(np.array_equal(one[here], two[here]) for here in blocks)
