"""From data to a checked config object: all mistakes are found, each reported in one line."""

import json
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError, WrapValidator
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

M = TypeVar("M", bound=BaseModel)
Path = tuple[str | int, ...]
Mistake = tuple[Path, str]


def read_as(model: type[M], data: object) -> M:
    """`data`, as YAML or JSON gives it, as a `model`.

    Raises ValidationError with our own message for each mistake. Validators may call it for a
    part: pydantic joins the mistakes and their paths.
    """
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise ValidationError.from_exception_data(
            model.__name__, [_reworded(model, d) for d in error.errors() if not _echo(d)]
        ) from None


def one_of(models: Mapping[str, type[BaseModel]], key: str) -> WrapValidator:
    """Validates a union whose member is named by the text at `key`; `text` means `{key: text}`."""

    def validate(data: object) -> object:
        if isinstance(data, tuple(models.values())):
            return data
        if isinstance(data, str):
            data = {key: data}
        if not isinstance(data, dict):
            raise mistake(f"must be one of {listed(models)}, or a mapping with {key!r}", data)
        if key not in data:
            raise mistake(f"needs {key!r}, one of {listed(models)}")
        name = data[key]
        if not isinstance(name, str) or name not in models:
            raise mistake(f"{key!r} must be one of {listed(models)}{nearest(name, models)}", name)
        return read_as(models[name], data)

    return instead(validate)


def shorthand(model: type[BaseModel], expand: Callable[[Any], object]) -> WrapValidator:
    """Validates as `model`, after `expand` has turned short forms into the long one."""
    return instead(lambda data: read_as(model, expand(data)))


def instead(validate: Callable[[Any], object]) -> WrapValidator:
    """Validates by this function alone; the annotated type is used only to serialize the value."""
    return WrapValidator(lambda data, _pydantics_own: validate(data))


_NOTHING = object()


def mistake(text: str, value: object = _NOTHING) -> PydanticCustomError:
    """The error for a validator to raise: `text`, and the wrong value if it is given."""
    if value is not _NOTHING:
        text = f"{text}, but is {shown(value)}"
    return PydanticCustomError("mistake", "{text}", {"text": text})


def mistakes_of(error: ValidationError) -> list[Mistake]:
    """Path and text of each mistake that `read_as` found."""
    return [(tuple(details["loc"]), details["msg"]) for details in error.errors()]


def written(path: Path) -> str:
    """A path as the user writes it for `--set`: arms.0.name."""
    return ".".join(str(step) for step in path)


def shown(value: object) -> str:
    """A value for an error line: at most 60 characters."""
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "..."


def listed(names: Mapping[str, object]) -> str:
    """Names for an error line."""
    return ", ".join(names)


def nearest(name: object, names: Mapping[str, object]) -> str:
    """' (did you mean x?)' where some name is close, else nothing."""
    close = get_close_matches(str(name), names, n=1)
    return f" (did you mean {close[0]}?)" if close else ""


def _echo(details: ErrorDetails) -> bool:
    """Whether a list counts as too short only because its entries were refused one by one."""
    return details["type"] == "too_short" and len(details["input"]) > 0


def _reworded(model: type[BaseModel], details: ErrorDetails) -> InitErrorDetails:
    kind, path, value = details["type"], details["loc"], details["input"]
    if kind == "mistake":
        error = mistake(details["msg"])
    elif kind == "missing":
        error = mistake("missing: it must be given")
    elif kind == "extra_forbidden":
        keys = _keys_at(model, path[:-1])
        allowed = f"; allowed: {listed(keys)}" if keys else ""
        error = mistake(f"unknown key{nearest(path[-1], keys)}{allowed}")
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


def _keys_at(model: type[BaseModel], path: Path) -> Mapping[str, object]:
    """The keys that are allowed at `path`, through plain fields and lists.

    Empty in a union without `one_of`: the intended member is not known.
    """
    inner: Any = model
    for step in path:
        if isinstance(step, str):
            field = inner.model_fields.get(step) if _is_model(inner) else None
            inner = _item(field.annotation) if field else None
    return inner.model_fields if _is_model(inner) else {}


def _item(annotation: Any) -> Any:
    """What `X | None`, `tuple[X, ...]` and `dict[str, X]` hold."""
    inner = [arg for arg in get_args(annotation) if arg not in (type(None), Ellipsis)]
    return _item(inner[-1]) if inner else annotation


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
