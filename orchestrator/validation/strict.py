"""The base of every config object: frozen, and every key must be known."""

from typing import Annotated, Any, TypeVar

import pydantic
from pydantic import AwareDatetime, BaseModel, ConfigDict, field_validator

from orchestrator.validation.errors import mistake

T = TypeVar("T")
LAX = pydantic.Strict(False)
"""Marks a field that YAML has no type for, so that it is read from another one."""
Items = Annotated[tuple[T, ...], LAX]
"""A tuple, from a list."""
Instant = Annotated[AwareDatetime, LAX]
"""A time with a zone, from an ISO text."""


MAX_INT = 2**63 - 1
"""The largest integer of a field that sets no limit of its own: what 64 bits hold."""


class Strict(BaseModel):
    """A frozen part of a config. An unknown key or a wrong type is an error, never a guess.

    "5" is not a number, 1 not true and 1.0 not an integer. Declare what YAML cannot express as
    `Items` or `Instant`, or mark it `LAX`.
    """

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,
    )

    @field_validator("*", mode="after", check_fields=False)
    @classmethod
    def _integers_fit(cls, value: Any) -> Any:
        for number in value if isinstance(value, tuple) else (value,):
            if type(number) is int and number > MAX_INT:
                raise mistake(f"must be at most {MAX_INT}", number)
        return value
