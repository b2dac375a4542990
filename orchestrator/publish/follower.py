"""A consumer of published models: it holds one model and updates it with new deltas."""

from dataclasses import dataclass

from divergence.errors import InputError
from orchestrator.journal.record import CorruptError, FileRef
from orchestrator.publish.origin import Origin
from orchestrator.publish.place import Version
from orchestrator.publish.publisher import read_verified
from trainer.model import Model
from trainer.modelfile import apply_delta, load_model


@dataclass(frozen=True, slots=True)
class Update:
    """The result of looking for a newer version.

    `version` is None if there is none. `faults` has a line for each newer version that was skipped
    because it is corrupt or missing.
    """

    version: Version | None
    faults: tuple[str, ...] = ()


class Follower:
    """Never goes back to an older version, and never loads a corrupt one."""

    def __init__(self, origin: Origin) -> None:
        """Reads nothing until `advance` is called."""
        self._origin = origin
        self._number = -1
        self._files: tuple[FileRef, ...] = ()
        self._model: Model | None = None

    @property
    def model(self) -> Model:
        """The model after the last `advance`. The next `advance` changes it in place."""
        if self._model is None:
            raise InputError(f"{self._origin.store.uri}: has no valid model yet")
        return self._model

    def advance(self) -> Update:
        """Load the newest valid version above the current one."""
        faults: list[str] = []
        for found in self._origin.newer(self._number):
            try:
                if isinstance(found, CorruptError):
                    raise InputError(str(found))
                self._load(found)
                return Update(found, tuple(faults))
            except InputError as error:
                faults.append(str(error))
        return Update(None, tuple(faults))

    def _load(self, version: Version) -> None:
        """Apply the new deltas; reload all files if the version does not extend the current one."""
        held, store = len(self._files), self._origin.store
        if self._model is None or version.files[:held] != self._files:
            held = 0
        names = [file.path for file in version.files]
        data = [read_verified(store, file) for file in version.files[held:]]
        model = self._model if held else None
        self._model, self._files = None, ()  # a failure below leaves the model half updated
        for name, each in zip(names[held:], data, strict=True):
            if model is None:
                model = load_model(each, name)
            else:
                apply_delta(model, each, name)
        self._model, self._files, self._number = model, version.files, version.number
