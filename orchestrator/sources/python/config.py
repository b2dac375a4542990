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


class PythonConfig(Reading, SourceConfig):
    """A class of the user's own: `events(cycle)` gives the rows of a cycle, None after the last."""

    kind: Literal["python"] = "python"
    object: Annotated[str, AfterValidator(_is_reference)]
    """module:Class, in a folder that is given with --code."""
    options: Annotated[dict[Name, str | int | float | bool | None], AfterValidator(_no_secrets)] = (
        Field(default_factory=dict)
    )
    """The arguments of the class. They are written to the run folder: no secrets."""
    code: str | None = None
    """A hash of the code, set when a run begins, so that a change is noticed."""

    @model_validator(mode="after")
    def _same_code(self) -> Self:
        if not own_code.is_allowed(self.object):
            return self
        try:
            own_code.load(self.object)
        except InputError as error:
            raise mistake(f"object: {error}") from None
        now = own_code.code_hash(self.object)
        if self.code not in (None, now):
            raise mistake(
                f"code: the code of {self.object} has changed since then: it must hash to "
                f"{str(self.code)[:12]}..., but is {now[:12]}...: restore it, or start another run"
            )
        self.__dict__["code"] = now  # frozen for others
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
