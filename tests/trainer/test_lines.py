"""Lines that share an index are what separate models would be, bit for bit."""

import numpy as np
import pytest

from divergence.rules import make_rule
from orchestrator.config.schema import feature_spec
from orchestrator.journal.models import model_config
from orchestrator.sources.opening import open_source
from support.configs import small
from trainer.chunk import Chunk, compile_chunk
from trainer.instance import Buffers, Job, train
from trainer.kernel import Tables
from trainer.lines import LineOptions, Lines
from trainer.model import Model
from trainer.modelfile import load_model, save_model
from trainer.scoring import distinct_ads, log_loss, predict, served_logloss
from trainer.setting import Setting

CONFIG = small("source.events_per_cycle=150", "source.ads=1000")
SOURCE = open_source(CONFIG.source, feature_spec(CONFIG.features), None, None)
OPTIONS = LineOptions(model_config(CONFIG, SOURCE.spec), mu0=0.1, sums_kept=0.9, expire_after=2)
JOB = Job(SOURCE.spec, OPTIONS.model.shape)
RULE = make_rule("l2", lam=0.001)
SETTINGS = {0: Setting(0.3, 1.0, 0.5), 1: Setting(1.0, 2.0, 0.7), 5: Setting(0.1, 1.0, 0.3)}


def setting_of(line: int) -> Setting:
    return SETTINGS.get(line) or Setting(0.1 * line, 1.0, 0.4)


def chunk_of(cycle: int) -> Chunk:
    events = SOURCE.events(cycle)
    assert events is not None
    return compile_chunk(events.table, SOURCE.spec)


def step(lines: Lines, cycle: int, skips: tuple[int, ...] = ()) -> None:
    chunk, buffers = chunk_of(cycle), Buffers()

    def work(line: int, tables: Tables) -> bool:
        setting = setting_of(line)
        train(JOB, chunk, tables, setting, RULE, buffers=buffers, in_place=True)
        return line not in skips

    lines.see(chunk, cycle, work, buffers)


def new_lines(*numbers: int) -> Lines:
    lines = Lines(OPTIONS)
    for number in numbers:
        lines.add_new(number)
    return lines


def file_of(lines: Lines, line: int) -> bytes:
    return save_model(lines.as_model(line), rows=True)


def test_lines_are_what_separate_models_would_be() -> None:
    lines, models = new_lines(*SETTINGS), {i: Model(OPTIONS.model) for i in SETTINGS}
    for cycle in range(8):
        chunk = chunk_of(cycle)
        step(lines, cycle, skips=(1,) if cycle == 3 else ())
        for i, model in models.items():
            start = model.gather(chunk, cycle, mu0=0.1, sums_kept=0.9)
            tables = start.tables
            if not (i == 1 and cycle == 3):
                tables = train(JOB, chunk, start.tables, SETTINGS[i], RULE).tables
            model.scatter(chunk, cycle, start, tables)
            model.expire(cycle - 2)
            assert save_model(model, rows=True) == file_of(lines, i)
    assert any(side.free for side in (lines.user, lines.ad))


def test_a_served_log_loss_is_that_of_the_model_before() -> None:
    """The same bits as those of one model alone, however many there are."""
    lines = new_lines(*range(11))
    for cycle in range(2):
        step(lines, cycle)
    chunk, buffers = chunk_of(2), Buffers()
    ads, alone = distinct_ads(JOB.shape, chunk), {}
    for line in range(11):
        model = load_model(file_of(lines, line), "line")
        tables = model.gather(chunk, 2, mu0=0.1).tables
        alone[line] = served_logloss(JOB.shape, chunk, ads, tables, buffers)
        assert alone[line] == pytest.approx(
            log_loss(predict(JOB.shape, chunk, tables), chunk.click)
        )
    assert lines.see(chunk, 2, lambda line, tables: False, buffers, score=True) == alone
    assert len(set(alone.values())) == 11


def test_saved_copied_and_moved_lines_continue_to_the_same_bits() -> None:
    whole, early = new_lines(0, 1), new_lines(0)
    for cycle in range(5):
        step(whole, cycle)
        step(early, cycle)
    joined = Lines(OPTIONS)
    joined.load(0, load_model(file_of(early, 0), "line 0", OPTIONS.model))
    sent = Tables(*(np.array(array) for array in whole.rows_of(1)))
    for array in sent:
        array.setflags(write=False)  # as they come out of Ray's store
    joined.put(1, sent)
    joined.copy(5, 1)
    for cycle in range(5, 8):
        step(whole, cycle)
        step(joined, cycle)
    assert [file_of(joined, i) for i in (0, 1)] == [file_of(whole, i) for i in (0, 1)]
    assert 5 in joined
    joined.keep_only([0])
    assert (5 in joined, len(joined)) == (False, 1)
    joined.take_over(whole)
    assert len(joined) == 2


def test_lines_that_start_from_one_model_are_what_separate_models_would_be() -> None:
    first, lines = new_lines(0), Lines(OPTIONS)
    for cycle in range(3):
        step(first, cycle)
    base = file_of(first, 0)
    models = {i: load_model(base, f"line {i}", OPTIONS.model) for i in SETTINGS}
    lines.load(0, load_model(base, "base", OPTIONS.model))
    lines.copy(1, 0)
    lines.load(5, load_model(base, "base", OPTIONS.model))
    for cycle in range(3, 8):
        chunk = chunk_of(cycle)
        step(lines, cycle)
        for i, model in models.items():
            start = model.gather(chunk, cycle, mu0=0.1, sums_kept=0.9)
            model.scatter(
                chunk, cycle, start, train(JOB, chunk, start.tables, SETTINGS[i], RULE).tables
            )
            model.expire(cycle - 2)
            assert save_model(model, rows=True) == file_of(lines, i)
            again = Lines(OPTIONS)
            again.load(i, load_model(file_of(lines, i), "again"))
            assert file_of(again, i) == file_of(lines, i)


def test_lines_of_another_cycle_do_not_fit() -> None:
    lines, later = new_lines(0), new_lines(1)
    step(lines, 0)
    step(later, 0)
    step(later, 1)
    with pytest.raises(ValueError, match="line 1 of cycle 1 does not fit"):
        lines.load(1, load_model(file_of(later, 1), "line 1"))
    with pytest.raises(ValueError, match="lines of cycle 1 do not fit those of 0"):
        lines.take_over(later)
    with pytest.raises(ValueError, match="cannot be new"):
        lines.add_new(2)
