"""A consumer of published models: keeps one, and brings it up to date by what is new of it."""

from collections.abc import Sequence
from dataclasses import dataclass

from divergence.errors import InputError
from orchestrator.journal.record import CorruptError, FileRef
from orchestrator.publish.origin import Origin
from orchestrator.publish.place import Version
from orchestrator.publish.publisher import sound_bytes
from trainer.model import Model
from trainer.modelfile import apply_delta, load_model


@dataclass(frozen=True, slots=True)
class Followed:
    """What came of a look at an origin.

    `version` is None where there is nothing newer. `faults` says what was newer but is torn,
    altered or gone, and was passed over.
    """

    version: Version | None
    faults: tuple[str, ...] = ()


class Follower:
    """Never goes back to an older version, and never takes one that is not whole."""

    def __init__(self, origin: Origin) -> None:
        """Nothing is read yet."""
        self._origin = origin
        self._number = -1
        self._files: tuple[FileRef, ...] = ()
        self._model: Model | None = None

    @property
    def model(self) -> Model:
        """The model as of the last `advance`, which the next one changes."""
        if self._model is None:
            raise InputError(f"{self._origin.store.uri}: has no sound model yet")
        return self._model

    def advance(self) -> Followed:
        """Take the newest sound version above the one that is held."""
        faults: list[str] = []
        for found in self._origin.newer(self._number):
            try:
                if isinstance(found, CorruptError):
                    raise InputError(str(found))
                self._take(found)
                return Followed(found, tuple(faults))
            except InputError as fault:
                faults.append(str(fault))
        return Followed(None, tuple(faults))

    def _take(self, version: Version) -> None:
        """Apply the deltas that are new; where the files held are not its first ones, all anew."""
        held, store = len(self._files), self._origin.store
        if self._model is None or version.files[:held] != self._files:
            held = 0
        names = [file.path for file in version.files]
        data = [sound_bytes(store, file) for file in version.files[held:]]
        model = self._model if held else None
        self._model, self._files = None, ()  # what fails halfway is not to be gone on with
        for name, each in zip(names[held:], data, strict=True):
            if model is None:
                model = load_model(each, name)
            else:
                apply_delta(model, each, name)
        self._model, self._files, self._number = model, version.files, version.number


def load_version(origin: Origin, files: Sequence[FileRef]) -> Model:
    """The model that these files make up."""
    base, *deltas = files
    model = load_model(sound_bytes(origin.store, base), base.path)
    for delta in deltas:
        apply_delta(model, sound_bytes(origin.store, delta), delta.path)
    return model
