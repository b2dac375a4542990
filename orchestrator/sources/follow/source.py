"""A folder that keeps filling: each new file, in order of name, is the next chunk.

| what happens | what the source does |
|---|---|
| the next file does not exist yet | waits for it, for the end marker or for `stop` |
| a name starts with _ or ., or ends in .tmp or .part | ignores the file |
| a local file changed less than `settle_s` ago | waits |
| a file appears whose name sorts before one that was read | skips it, logs a warning, and \
counts its rows as set aside with the next chunk |
| events in a file are out of order | sorts them within their chunk |
| a file was deleted or changed its size, and its cycle is needed again | fails |

The source records which file is which cycle, in one small file per cycle, when it gives the chunk.
So a resumed run has the same cycles, whatever was added to the folder since.
"""

import json
import logging
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatch
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from divergence.errors import InputError, one_line
from orchestrator.sources.files.chunks import Chunks, Part, write_lines
from orchestrator.sources.files.decoder import Decoder
from orchestrator.sources.files.files import (
    File,
    file_system,
    is_local,
    list_folder,
    options_for,
)
from orchestrator.sources.files.run_store import MAX_RECORD_BYTES, run_store
from orchestrator.sources.follow.config import FollowConfig
from orchestrator.sources.protocol import LATE_FILE, Events
from orchestrator.storage.store import CorruptError, read
from orchestrator.validation.errors import dotted
from orchestrator.validation.strict import MAX_INT
from trainer.features import FeatureSpec

RECORDS = "followed"
"""The folder in the run folder; its name is part of the format."""
END = "end.json"
"""In that folder: how many cycles there were when the end marker was found."""
Count = Annotated[int, Field(ge=0, le=MAX_INT)]
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Taken:
    """A cycle's file, by its name in the folder, and the rows of each late file found with it."""

    file: str
    size: Count
    late: Mapping[str, Count] = field(default_factory=dict)


TAKEN = TypeAdapter(Taken)


class FollowSource:
    """Reads files as they arrive. Setting `stop` ends a wait at once, and the stream."""

    def __init__(
        self,
        config: FollowConfig,
        spec: FeatureSpec,
        run_uri: str | None = None,
        stop: threading.Event | None = None,
    ) -> None:
        self.spec = spec
        self._config = config
        self._stop = stop or threading.Event()
        self._decoder = Decoder(config, spec)
        self._decoder.check(None)
        self._chunks = Chunks(self._decoder, config.path, run_uri)
        self._run_uri = run_uri
        self._options = options_for(run_uri or "", config.path, config.storage_options)
        self._taken: list[Taken] = self._recorded()

    def events(self, cycle: int) -> Events | None:
        """The events of this cycle's file. Waits for it; None after the end of the stream."""
        while len(self._taken) < cycle:
            skipped = self._next()
            if skipped is None:
                return None
            self._record(skipped)
        known = cycle < len(self._taken)
        taken = self._taken[cycle] if known else self._next()
        if taken is None:
            return None
        events = self._chunk(cycle, taken)
        if not known:  # a file that fails the checks may still be repaired
            self._record(taken)
        return events

    def _chunk(self, cycle: int, taken: Taken) -> Events:
        file = self._file_of(cycle, taken)
        try:
            parts = [Part(file, block) for block in self._decoder.blocks(file)]
            events = self._chunks.events(cycle, parts, file.name)
        except InputError as error:
            if cycle:
                raise
            raise self._decoder.with_others(error, file) from error
        if not taken.late:
            return events
        late = {LATE_FILE: min(sum(taken.late.values()), MAX_INT)}
        return Events(cycle, events.table, events.origin, {**events.set_aside, **late})

    def _next(self) -> Taken | None:
        """Waits for the next file; None after the end of the stream."""
        last = self._taken[-1].file if self._taken else ""
        while True:
            ended = self._ended()  # before listing, so that no file written earlier is missed
            files = self._files()
            new = next((name for name in files if name > last), None)
            if new is not None and self._settled(files[new]):
                return Taken(new, files[new].size, self._late(files, last))
            if ended and new is None:
                self._note_end()
                return None
            if self._stop.wait(self._config.poll_s):
                return None

    def _note_end(self) -> None:
        if self._run_uri is not None:
            note = {"cycles": len(self._taken)}
            write_lines(self._run_uri, f"{RECORDS}/{END}", [note], self._options)

    def _files(self) -> dict[str, File]:
        """The folder's current files, by their names in it."""
        found = list_folder(self._config.path, self._config.storage_options)
        _, root = file_system(self._config.path, self._config.storage_options)
        return {file.path[len(root) :].lstrip("/"): file for file in found}

    def _ended(self) -> bool:
        fs, root = file_system(self._config.path, self._config.storage_options)
        fs.invalidate_cache()
        return bool(fs.exists(f"{root.rstrip('/')}/{self._config.end_marker}"))

    def _settled(self, file: File) -> bool:
        """An object appears complete; a local file may still be growing."""
        if not is_local(file.fs):
            return True
        try:
            quiet_s = time.time() - file.fs.modified(file.path).timestamp()
            return bool(quiet_s >= self._config.settle_s)
        except FileNotFoundError:
            return False

    def _late(self, files: Mapping[str, File], last: str) -> dict[str, int]:
        known = {taken.file for taken in self._taken}
        known |= {name for taken in self._taken for name in taken.late}
        late = {}
        for name, file in files.items():
            if name <= last and name not in known:
                late[name] = sum(block.rows for block in self._decoder.blocks(file))
                text = "%s arrived after %s was read: its %d rows are set aside"
                log.warning(text, file.name, last, late[name])
        return late

    def _file_of(self, cycle: int, taken: Taken) -> File:
        file = self._files().get(taken.file)
        if file is None or file.size != taken.size:
            what = "was deleted" if file is None else f"has {file.size} bytes, not {taken.size}"
            raise InputError(
                f"{self._config.path}/{taken.file}, the file of cycle {cycle}, {what}: "
                "a file must not change after it was read"
            )
        return file

    def _record(self, taken: Taken) -> None:
        if self._run_uri is not None:
            path = f"{RECORDS}/cycle-{len(self._taken):06d}.json"
            write_lines(self._run_uri, path, [asdict(taken)], self._options)
        self._taken.append(taken)

    def _recorded(self) -> list[Taken]:
        """What the run folder, which may come from a stranger, says of the cycles before."""
        if self._run_uri is None:
            return []
        where = f"{self._run_uri}/{RECORDS}"
        try:
            return list(_read_records(self._run_uri, self._options))
        except (InputError, OSError, ValueError) as error:
            raise InputError(f"{where} cannot be read: {one_line(error)}") from error


def _read_records(run_uri: str, options: Mapping[str, Any]) -> Iterator[Taken]:
    store = run_store(run_uri, options)
    names = [name for name in store.names(RECORDS) if fnmatch(name, "cycle-*.json")]
    for cycle, name in enumerate(names):
        if name != f"cycle-{cycle:06d}.json":
            raise ValueError(f"{name} follows cycle {cycle - 1}")
        try:
            yield TAKEN.validate_json(read(store, f"{RECORDS}/{name}", MAX_RECORD_BYTES))
        except ValidationError as error:
            first = error.errors()[0]
            place = dotted((name, *first["loc"]))
            raise ValueError(f"{place}: {first['msg']}") from None


def noted_end(config: FollowConfig, run_uri: str) -> int | None:
    """How many cycles a run had when it found the end marker; None if it has not."""
    store = run_store(run_uri, options_for(run_uri, config.path, config.storage_options))
    path = f"{RECORDS}/{END}"
    try:
        return int(json.loads(read(store, path, MAX_RECORD_BYTES))["cycles"])
    except FileNotFoundError:
        return None
    except (CorruptError, OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise InputError(f"{run_uri}/{path} cannot be read: {one_line(error)}") from error
