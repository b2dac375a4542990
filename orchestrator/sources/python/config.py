"""The source `python`: a class of the user's own gives the rows of each cycle."""

import re
import threading
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from divergence import own_code
from divergence.errors import InputError
from orchestrator.sources.files.reading import Name, Reading
from orchestrator.sources.protocol import Source, SourceConfig
from orchestrator.validation.errors import mistake
from orchestrator.validation.secrets import without_credentials
from trainer.features import FeatureSpec

SECRET = re.compile(r"passw|secret|token|credential|api_?key", re.IGNORECASE)


def _is_reference(name: str) -> str:
    if not own_code.is_reference(name):
        raise mistake("must look like my_events:Source", name)
    return name


def _no_secrets(options: dict[str, Any]) -> dict[str, Any]:
    for name, value in options.items():
        if SECRET.search(name):
            raise mistake(f"{name}: options are written to the run folder: read secrets from the "
                          "environment instead")  # fmt: skip
        if isinstance(value, str):
            without_credentials(value)
    return options


Reference = Annotated[str, AfterValidator(_is_reference)]
"""module:Class of the user's own."""
Options = Annotated[dict[Name, str | int | float | bool | None], AfterValidator(_no_secrets)]
"""The arguments of such a class."""


def checked_code(reference: str, recorded: str | None) -> str | None:
    """The hash of the code as it is now; as recorded where it may not be loaded.

    A mistake where the code cannot be loaded, or is not what was recorded.
    """
    if not own_code.is_allowed(reference):
        return recorded
    try:
        own_code.load(reference)
    except InputError as error:
        raise mistake(f"object: {error}") from None
    now = own_code.code_hash(reference)
    if recorded not in (None, now):
        raise mistake(
            f"code: the code of {reference} has changed since then: it must hash to "
            f"{str(recorded)[:12]}..., but is {now[:12]}...: restore it, or start another run"
        )
    return now


class PythonConfig(Reading, SourceConfig):
    """A class of the user's own: `events(cycle)` gives the rows of a cycle, None after the last."""

    kind: Literal["python"] = "python"
    object: Reference
    """module:Class, in a folder that is given with --code."""
    options: Options = Field(default_factory=dict)
    """The arguments of the class. They are written to the run folder: no secrets."""
    code: str | None = None
    """A hash of the code, set when a run begins, so that a change is noticed."""

    @model_validator(mode="after")
    def _same_code(self) -> Self:
        self.__dict__["code"] = checked_code(self.object, self.code)  # frozen for others
        return self

    def require_code(self) -> None:
        """InputError where the class may not run."""
        own_code.load(self.object)

    def open(self, spec: FeatureSpec, run_uri: str | None, stop: threading.Event | None) -> Source:
        """An object of the class as a stream, its rows mapped and checked like those of files."""
        from orchestrator.sources.python.source import PythonSource

        return PythonSource(self, spec, run_uri, stop)

    @property
    def reading(self) -> Reading:
        """Its own."""
        return self
