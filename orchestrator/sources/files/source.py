"""A set of files as a stream of cycles, which continues when files are added between two starts."""

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from divergence.errors import InputError
from orchestrator.sources.files.chunks import Chunks
from orchestrator.sources.files.config import FilesConfig
from orchestrator.sources.files.cutting import CutFiles, Rest, cycle_us
from orchestrator.sources.files.decoder import Decoder
from orchestrator.sources.files.files import File, find_files
from orchestrator.sources.files.listings import (
    ListedFile,
    Listing,
    Listings,
    added_since,
    has_grown_from,
    listed,
    views,
)
from orchestrator.sources.protocol import LATE_ROW, Events
from trainer.features import FeatureSpec

MOST_FILES = 3
"""How many files a warning names."""
log = logging.getLogger(__name__)


class FileSource:
    """Existing files, cut by count or by time. Gives any cycle, in any order.

    What the run folder lists is what was there when a run read it. Without `resume` (a replay, a
    description) nothing is added to that and nothing is written.
    """

    def __init__(
        self,
        config: FilesConfig,
        spec: FeatureSpec,
        run_uri: str | None = None,
        *,
        read_only: bool = False,
    ) -> None:
        """`read_only`: broken rows are not written to the run folder."""
        if config.cut.minutes is not None and spec.timestamp is None:
            raise InputError(
                "source.cut.minutes needs features.timestamp; set it, or cut by events"
            )
        self.spec = spec
        self._config, self._cut = config, config.cut
        self._there = {f.name: f for f in find_files(config.path, config.storage_options)}
        self._decoder = Decoder(config, spec)
        self._decoder.check(next(iter(self._there.values()), None))
        first = config.path if isinstance(config.path, str) else config.path[0]
        self._chunks = Chunks(self._decoder, first, None if read_only else run_uri)
        self._store = Listings(run_uri, config.options_for(run_uri)) if run_uri else None
        self._listings = self._store.read() if self._store else []
        self._cut_files: dict[int, CutFiles] = {}
        self._added: tuple[ListedFile, ...] = ()
        self._resumed = False

    def resume(self, cycle: int, check: Callable[[Events], None]) -> None:
        """See `Resumable`. Nothing depends on files all of whose rows were trained."""
        while self._listings and self._listings[-1].first_cycle >= cycle:  # nothing of it trained
            self._listings.pop()
        self._cut_files.clear()
        ended = bool(self._listings) and self._listings[-1].cycles is not None
        before = self.events(cycle - 1) if cycle and not ended else None
        if before is not None:
            check(before)
        self._resumed = self._store is not None
        if self._resumed and self._listings:
            self._find_added(cycle, ended=ended)
        elif self._resumed:
            self._add(Listing(0, tuple(map(listed, self._there.values()))))

    def events(self, cycle: int) -> Events | None:
        """The events of a cycle, or None after the last."""
        try:
            return self._events(cycle)
        except InputError as error:
            first = next(iter(self._there.values()), None)
            if cycle or first is None:
                raise
            raise self._decoder.with_others(error, first) from error

    def _events(self, cycle: int) -> Events | None:
        number = max((n for n, x in enumerate(self._listings) if x.first_cycle <= cycle), default=0)
        listing = self._listings[number] if self._listings else Listing(0, ())
        if listing.cycles is not None and cycle >= listing.first_cycle + listing.cycles:
            return self._events_added(cycle)
        cut = self._cut_of(number)
        found = cut.parts(cycle - listing.first_cycle)
        if found is None:
            self._note_end(cycle)
            return self._events_added(cycle)
        events = self._chunks.events(cycle, *found)
        late = cut.late() if cycle == listing.first_cycle else None
        if not late:
            return events
        self._warn(late)
        skipped = {**events.set_aside, LATE_ROW: late.total()}
        return Events(cycle, events.table, events.origin, skipped)

    def _find_added(self, cycle: int, *, ended: bool) -> None:
        """Find what was added since the run stopped before this cycle."""
        if not ended:
            last = self._listings[-1]
            now = tuple(_refreshed(past, self._there) for past in last.files)
            self._replace(replace(last, files=now))
            if self._cut_of(len(self._listings) - 1).parts(cycle - last.first_cycle) is None:
                self._note_end(cycle)
                ended = True
        known = [file for listing in self._listings for file in listing.files]
        self._added = added_since(known, self._there, self._config, ended=ended)
        if self._added and self._cut.minutes is not None and not ended:
            last = self._listings[-1]
            begin = self._begin_us() + (cycle - last.first_cycle) * cycle_us(self._cut)
            self._replace(replace(last, cycles=cycle - last.first_cycle))
            self._add(Listing(cycle, (*last.files, *self._added), begin))
            self._added = ()

    def _events_added(self, cycle: int) -> Events | None:
        """The next cycle after all rows of the last listing: of files that were added since."""
        last, added = self._listings[-1] if self._listings else None, self._added
        if last is None or not added or last.cycles is None:
            return None
        listing = Listing(cycle, added)
        if self._cut.minutes is not None:
            begin = self._begin_us() + max(last.cycles - 1, 0) * cycle_us(self._cut)
            files = views(added, self._there, self._config)
            rest = Rest(begin, frozenset(files), again=True)
            cut = CutFiles(files, self._cut, self._decoder, rest)
            listing = replace(listing, begin_us=cut.begin_us())
            if cut.parts(0) is None:
                self._warn(cut.late())
                return None
        self._added = ()
        self._add(listing)
        return self.events(cycle)

    def _note_end(self, cycle: int) -> None:
        """The last listing has no events from this cycle on."""
        if self._resumed and self._listings[-1].cycles is None:
            last = self._listings[-1]
            begin = None if self._cut.minutes is None else self._begin_us()
            self._replace(replace(last, cycles=cycle - last.first_cycle, begin_us=begin))

    def _begin_us(self) -> int:
        """When the first cycle of the last listing starts."""
        begin = self._listings[-1].begin_us
        return self._cut_of(len(self._listings) - 1).begin_us() if begin is None else begin

    def _add(self, listing: Listing) -> None:
        self._listings.append(listing)
        self._replace(listing)

    def _replace(self, listing: Listing) -> None:
        """Write the last listing."""
        assert self._store is not None, "only a run that resumes writes"
        self._listings[-1] = listing
        self._store.write(len(self._listings) - 1, listing)

    def _warn(self, late: Counter[str]) -> None:
        if self._resumed:
            shown = [f"{name}: {rows}" for name, rows in late.most_common(MOST_FILES)]
            listed = ", ".join([*shown, "…"] if len(late) > MOST_FILES else shown)
            text = "%d rows of files that were added (%s) are older than what was trained: skipped"
            log.warning(text, late.total(), listed)

    def _cut_of(self, number: int) -> CutFiles:
        if number not in self._cut_files:
            files, rest = tuple(self._there.values()), None
            if self._listings:
                listing = self._listings[number]
                files = tuple(views(listing.files, self._there, self._config))
                if number and listing.begin_us is not None:
                    rest = Rest(listing.begin_us, self._new_in(number, files))
            self._cut_files[number] = CutFiles(files, self._cut, self._decoder, rest)
        return self._cut_files[number]

    def _new_in(self, number: int, files: Sequence[File]) -> frozenset[File]:
        """Those of a listing's files that no listing before it has."""
        before = {file for listing in self._listings[:number] for file in listing.files}
        pairs = zip(self._listings[number].files, files, strict=True)
        return frozenset(file for past, file in pairs if past not in before)


def _refreshed(past: ListedFile, there: Mapping[str, File]) -> ListedFile:
    """A file whose rows are not all trained may have been repaired."""
    file = there.get(past.name)
    return past if file is None or has_grown_from(past, file) else listed(file)
