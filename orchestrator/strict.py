"""The base of every config object: frozen, and no key goes unread."""

from pydantic import BaseModel, ConfigDict


class Strict(BaseModel):
    """A frozen piece of config. An unknown key or a wrong type is an error, never a guess."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True
    )
