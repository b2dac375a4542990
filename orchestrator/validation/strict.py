"""The base of every config object: frozen, and no key goes unread."""

from typing import Any

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler
from pydantic_core import CoreSchema

MAX_INT = 2**63 - 1
"""The largest integer of a field that sets no limit of its own: what 64 bits hold."""


def _make_scalars_strict(part: Any) -> None:
    if isinstance(part, dict):
        if part.get("type") in ("int", "float", "bool", "str"):
            part["strict"] = True
        if part.get("type") == "int" and not part.keys() & {"le", "lt"}:
            part["le"] = MAX_INT
        for inner in part.values():
            _make_scalars_strict(inner)
    elif isinstance(part, list | tuple):
        for inner in part:
            _make_scalars_strict(inner)


class Strict(BaseModel):
    """A frozen piece of config. An unknown key or a wrong type is an error, never a guess.

    Numbers, texts and truth values are taken as they are: "5" is no number, 1 not true, 1.0 no
    whole number. What YAML cannot say (tuples, dates) is read from what it can.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True
    )

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Pydantic's own schema with strict scalars.

        Its `strict` mode would also refuse a list for a tuple and a text for a date.
        """
        schema = handler(source)
        _make_scalars_strict(schema)
        return schema
