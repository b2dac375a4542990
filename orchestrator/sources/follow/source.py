"""A folder that is being filled: each new file, in order of name, is the next chunk.

| what happens | answer |
|---|---|
| the next file is not there | wait, until it is, the end marker is, or `stop` is set |
| a name starts with _ or ., or ends in .tmp or .part | not, or not yet, a chunk |
| a local file was written to less than `settle_s` ago | not yet a chunk |
| a file turns up whose name sorts before one that was taken | it is late: never inserted into \
history, its rows are counted as set aside with the next chunk, and a warning says so |
| events in a file are out of order | sorted within the chunk that they arrive in |
| a file that was taken is gone or of another size when its cycle is asked for again | an error |

Which file is which cycle is written down, one small record a cycle, when the chunk is given out:
so a resumed run has the same cycles whatever has been added to the folder since.
"""

import json
import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

import numpy as np

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
from orchestrator.sources.follow.config import FollowConfig
from orchestrator.sources.protocol import Events
from trainer.features import FeatureSpec

LATE = "late file"
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Taken:
    """A cycle's file, by name within the folder, and the late files found on the way, by rows."""

    file: str
    size: int
    late: Mapping[str, int] = field(default_factory=dict)


class FollowSource:
    """Takes files as they come. `stop` ends a wait at once, and the stream with it."""

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
        self._chunks = Chunks(self._decoder, config.path, run_uri)
        self._records = run_uri and f"{run_uri}/followed"
        self._options = options_for(run_uri or "", config.path, config.storage_options)
        self._taken: list[Taken] = self._recorded()

    def events(self, cycle: int) -> Events | None:
        """The file of this cycle. Waits for it; None where the stream has ended."""
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
        if not known:  # a file that fails the checks is not history: it may be mended
            self._record(taken)
        return events

    def _chunk(self, cycle: int, taken: Taken) -> Events:
        file = self._again(cycle, taken)
        blocks = self._decoder.blocks(file)
        parts = [Part(file, block, np.arange(block.rows)) for block in blocks]
        events = self._chunks.events(cycle, parts, file.name)
        if not taken.late:
            return events
        late = {LATE: sum(taken.late.values())}
        return Events(cycle, events.table, events.origin, {**events.set_aside, **late})

    def _next(self) -> Taken | None:
        """The next file, waiting for it; None where there will be none."""
        last = self._taken[-1].file if self._taken else ""
        while True:
            ended = self._ended()  # before the look, so that nothing written earlier is missed
            files = self._files()
            new = next((name for name in files if name > last), None)
            if new is not None and self._settled(files[new]):
                return Taken(new, files[new].size, self._late(files, last))
            if (ended and new is None) or self._stop.wait(self._config.poll_s):
                return None

    def _files(self) -> dict[str, File]:
        """The folder's files as they are now, by name within it."""
        found = list_folder(self._config.path, self._config.storage_options)
        _, root = file_system(self._config.path, self._config.storage_options)
        return {file.path[len(root) :].lstrip("/"): file for file in found}

    def _ended(self) -> bool:
        fs, root = file_system(self._config.path, self._config.storage_options)
        fs.invalidate_cache()
        return bool(fs.exists(f"{root.rstrip('/')}/{self._config.end_marker}"))

    def _settled(self, file: File) -> bool:
        """Objects appear whole; a local file may still be being written."""
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
                text = "%s came after %s was taken: its %d rows are set aside"
                log.warning(text, file.name, last, late[name])
        return late

    def _again(self, cycle: int, taken: Taken) -> File:
        file = self._files().get(taken.file)
        if file is None or file.size != taken.size:
            what = "is gone" if file is None else f"has {file.size} bytes, not {taken.size}"
            raise InputError(
                f"{self._config.path}/{taken.file}, the file of cycle {cycle}, {what}: "
                "files that were taken must stay as they are"
            )
        return file

    def _record(self, taken: Taken) -> None:
        if self._records is not None:
            path = f"{self._records}/cycle-{len(self._taken):06d}.json"
            write_lines(path, [asdict(taken)], self._options)
        self._taken.append(taken)

    def _recorded(self) -> list[Taken]:
        if self._records is None:
            return []
        fs, root = file_system(self._records, self._options)
        fs.invalidate_cache()
        try:
            paths = sorted(fs.glob(f"{root}/cycle-*.json"))
            return [Taken(**json.loads(fs.cat_file(path))) for path in paths]
        except (OSError, ValueError, TypeError) as error:
            raise InputError(f"{self._records} cannot be read: {one_line(error)}") from error
