"""Validate data as a config object. All mistakes are reported, one line each."""

import json
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from itertools import islice
from typing import Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError, WrapValidator
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from orchestrator.validation.uris import redact

M = TypeVar("M", bound=BaseModel)
Path = tuple[str | int, ...]
Mistake = tuple[Path, str]
MAX_SHOWN = 60
"""The longest value, in characters, that a message shows in full."""
MAX_READ = 1024
"""How many characters of a value are searched for credentials."""
_ENCODER = json.JSONEncoder(default=str, ensure_ascii=False)


def read_as(model: type[M], data: object) -> M:
    """Validate `data`, as read from YAML or JSON, as a `model`.

    Raises ValidationError, with a message of our own for each mistake. A validator may call it for
    a part of its data: pydantic joins the mistakes and their paths.
    """
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise ValidationError.from_exception_data(
            model.__name__, [_reworded(model, d) for d in error.errors() if not _is_side_effect(d)]
        ) from None


def one_of(
    models: Mapping[str, type[BaseModel]], key: str, meant: Mapping[str, str] | None = None
) -> WrapValidator:
    """Validate a union by the name at `key`. A plain string is short for `{key: string}`.

    `meant` has other names that users may try, and what to write instead.
    """

    def validate(data: object) -> object:
        names = ", ".join(models)
        if isinstance(data, tuple(models.values())):
            return data
        if isinstance(data, str):
            data = {key: data}
        if not isinstance(data, dict):
            raise mistake(f"must be one of {names}, or a mapping with {key!r}", data)
        if key not in data:
            raise mistake(f"needs {key!r}, one of {names}")
        name = data[key]
        if not isinstance(name, str) or name not in models:
            hint = (meant or {}).get(str(name).casefold())
            hint = f" (write {hint})" if hint else did_you_mean(name, models)
            raise mistake(f"{key!r} must be one of {names}{hint}", name)
        return read_as(models[name], data)

    return validate_with(validate)


def shorthand(model: type[BaseModel], expand: Callable[[Any], object]) -> WrapValidator:
    """Validate as `model`, after `expand` has turned a short form into the full one."""
    return validate_with(lambda data: read_as(model, expand(data)))


def validate_with(validate: Callable[[Any], object]) -> WrapValidator:
    """Validate with this function only; the annotated type is still used to serialise."""
    return WrapValidator(lambda data, _pydantics_own: validate(data))


_NO_VALUE = object()


def mistake(text: str, value: object = _NO_VALUE) -> PydanticCustomError:
    """The error that a validator raises: `text`, and the invalid value if there is one."""
    if value is not _NO_VALUE:
        text = f"{text}, but is {short(value)}"
    return PydanticCustomError("mistake", "{text}", {"text": text})


def mistakes_of(error: ValidationError) -> list[Mistake]:
    """The path and text of each mistake that `read_as` found."""
    return [(tuple(details["loc"]), details["msg"]) for details in error.errors()]


def dotted(path: Path) -> str:
    """A path as the user writes it in `--set`: arms.0.name."""
    return ".".join(cut(str(step)) for step in path)


def short(value: object) -> str:
    """A value for an error message: at most 60 characters, and no credentials of a URI.

    It encodes no more of a value than it shows: serving calls it for what strangers send.
    """
    try:
        parts = list(islice(_ENCODER.iterencode(value), MAX_SHOWN + 1))
    except (ValueError, RecursionError):  # an integer of thousands of digits; nested too deeply
        return f"a {type(value).__name__} that is too large to show"
    text, more = "".join(parts), "..." if len(parts) > MAX_SHOWN else ""
    if len(text) <= MAX_READ:
        return cut(redact(text) + more)
    text, uri, _ = text[:MAX_READ].partition("://")  # its password may end beyond what is read
    return cut(text + uri + "...")


def cut(text: str) -> str:
    """A text of at most 60 characters."""
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 3] + "..."


def printable(line: str) -> str:
    """A line whose control characters and lone surrogates are escaped: safe for a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)


def did_you_mean(name: object, names: Mapping[str, object]) -> str:
    """' (did you mean x?)' if a name is similar, else an empty string."""
    folded = {known.casefold(): known for known in names}
    close = get_close_matches(cut(str(name)).casefold(), folded, n=1)
    return f" (did you mean {folded[close[0]]}?)" if close else ""


def _is_side_effect(details: ErrorDetails) -> bool:
    """Whether a list is only too short because its entries are invalid and were dropped."""
    return details["type"] == "too_short" and len(details["input"]) > 0


def _reworded(model: type[BaseModel], details: ErrorDetails) -> InitErrorDetails:
    kind, path, value = details["type"], details["loc"], details["input"]
    if kind == "mistake":
        error = mistake(details["msg"])
    elif kind == "missing":
        error = mistake("missing: this key is required")
    elif kind == "extra_forbidden":
        keys = _keys_at(model, path[:-1])
        allowed = f"; allowed: {', '.join(keys)}" if keys else ""
        hint = did_you_mean(path[-1], keys) or _misplaced(model, path)
        error = mistake(f"unknown key{hint}{allowed}")
    elif kind == "too_short":
        error = mistake("must have at least one entry, but is empty")
    elif kind == "value_error":
        error = mistake(str(details["ctx"]["error"]))
    elif kind in ("model_type", "dict_type"):
        error = mistake("must be a mapping", value)
    elif kind in ("tuple_type", "list_type"):
        error = mistake("must be a list", value)
    else:
        error = mistake(details["msg"].removeprefix("Input "), value)
    return InitErrorDetails(type=error, loc=path, input=value)


def _misplaced(model: type[BaseModel], path: Path) -> str:
    """' (it belongs beside x)' if a key above `path` may have this name, else an empty string."""
    for depth in range(len(path) - 2, -1, -1):
        if path[-1] in _keys_at(model, path[:depth]):
            return f" (it belongs beside {path[depth]})"
    return ""


def _keys_at(model: type[BaseModel], path: Path) -> Mapping[str, object]:
    """The keys that are allowed at `path`, through plain fields, lists and mappings.

    Empty inside a union that does not use `one_of`: it is unknown which member was meant.
    """
    inner: Any = model
    for step in path:
        if get_origin(inner) is dict:
            inner = _item(get_args(inner)[1])
        elif isinstance(step, str):
            field = inner.model_fields.get(step) if _is_model(inner) else None
            inner = _item(field.annotation) if field else None
    return inner.model_fields if _is_model(inner) else {}


def _item(annotation: Any) -> Any:
    """The item type X of `X | None` and `tuple[X, ...]`; a mapping as it is."""
    if get_origin(annotation) is dict:
        return annotation
    inner = [arg for arg in get_args(annotation) if arg not in (type(None), Ellipsis)]
    return _item(inner[-1]) if inner else annotation


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
