"""Read a config from YAML, and write it back."""

from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from divergence.errors import InputError
from orchestrator.config.arm_checks import arm_mistakes
from orchestrator.config.rules import require_code
from orchestrator.config.schema import (
    AdaptiveSampler,
    GridSampler,
    LineagesSelect,
    RunConfig,
    StreamConfig,
    feature_spec,
)
from orchestrator.config.space import grid_size
from orchestrator.config.sustained import sustain_mistakes, sustained
from orchestrator.config.trainer_checks import trainer_mistakes, without_unused_rules
from orchestrator.sources.opening import resolve_spec
from orchestrator.validation.errors import Mistake, cut, dotted, mistakes_of, read_as
from orchestrator.validation.errors import Path as MistakePath
from orchestrator.validation.yaml import MAX_LENGTH, Document, dump, override, parse

MAX_LINES = 100
"""The most mistakes of a config that are listed."""
C = TypeVar("C", bound=StreamConfig)


def load_config(path: str, assignments: tuple[str, ...] = ()) -> RunConfig:
    """Read the config of a run from a file and apply `--set` assignments."""
    config = read_config(_read_text(path), path, assignments)
    key = "source"
    try:
        config.source.require_code()
        for number, arm in enumerate(config.arms):
            key = f"arms.{number}.rule (arm {arm.name})"
            require_code(arm.rule)
        key = "trainer"
        config.trainer.require()
    except InputError as error:
        raise InputError(f"{path}: {key}: {error}") from None
    return config


def load_as(model: type[C], path: str, assignments: tuple[str, ...] = ()) -> C:
    """Read a config of another type from a file."""
    return read_as_config(model, _read_text(path), path, assignments)


def read_as_config(model: type[C], text: str, name: str, assignments: tuple[str, ...] = ()) -> C:
    """Read a config of another type from text."""
    return _checked(model, _document(text, name, assignments, model), name, [])


def load_stream(path: str, assignments: tuple[str, ...] = ()) -> StreamConfig:
    """Read only `source` and `features` from a file; other keys are ignored."""
    document = _document(_read_text(path), path, assignments)
    own = {key: document.data[key] for key in StreamConfig.model_fields if key in document.data}
    return _checked(StreamConfig, replace(document, data=own), path, [])


def read_config(text: str, name: str, assignments: tuple[str, ...] = ()) -> RunConfig:
    """Read the config of a run from text. One InputError lists all mistakes, a line each."""
    document = _document(text, name, assignments)
    config = _checked(RunConfig, document, name, arm_mistakes(document.data))
    return sustained(without_unused_rules(config))


def config_text(config: StreamConfig) -> str:
    """The resolved config as YAML, which `read_config` reads back unchanged."""
    return dump(config.model_dump(mode="json"))


def _read_text(path: str) -> str:
    try:
        with Path(path).open(encoding="utf-8") as file:
            return file.read(MAX_LENGTH + 1)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: must be UTF-8 text, but byte {error.start} is not") from None


def _document(
    text: str, name: str, assignments: tuple[str, ...], model: type[StreamConfig] = RunConfig
) -> Document:
    document = parse(text, name)
    if document.data is None:
        document = Document({}, document.places)
    if not isinstance(document.data, dict):
        raise InputError(f"{name}: must be a mapping with the keys {', '.join(model.model_fields)}")
    for assignment in assignments:
        document = override(document, assignment)
    return document


def _checked(model: type[C], document: Document, name: str, mistakes: list[Mistake]) -> C:
    try:
        config = read_as(model, document.data)
        mistakes = mistakes + _cross_field_mistakes(config)
    except ValidationError as error:
        mistakes = mistakes + mistakes_of(error)
    if mistakes:
        lines = _lines(mistakes, document, name)
        more = [f"{name}: and {len(lines) - MAX_LINES} more mistakes"] * (len(lines) > MAX_LINES)
        raise InputError("\n".join(lines[:MAX_LINES] + more))
    return config


def _cross_field_mistakes(config: StreamConfig) -> list[Mistake]:
    """Mistakes that can only be found once every single field is valid."""
    found: list[Mistake] = []
    try:
        resolve_spec(config.source, feature_spec(config.features))
    except InputError as error:
        found.append((("features",), str(error)))
    if not isinstance(config, RunConfig):
        return found
    found += trainer_mistakes(config)
    found += sustain_mistakes(config)
    if isinstance(config.search.select, LineagesSelect):
        if config.search.sampler != AdaptiveSampler():
            text = "must be omitted with select: lineages, which draws settings by its own keys"
            found.append((("search", "sampler"), text))
        if config.sustain is not None:
            found.append((("search", "select"), "must be champion with sustain"))
    found += _serve_mistakes(config)
    if isinstance(config.search.sampler, GridSampler):
        instances, points = config.search.instances, grid_size(config)
        if instances > points:
            rule = f"must be at most {points}, the number of grid points, but is {instances}"
            found.append((("search", "instances"), rule))
    return found


def _serve_mistakes(config: RunConfig) -> list[Mistake]:
    count, instances = config.serve.mean_of, config.search.instances
    if count > 1 and not isinstance(config.search.select, LineagesSelect):
        text = f"must be 1 unless search.select is lineages, but is {count}"
    elif count > instances:
        text = f"must be at most search.instances, which is {instances}, but is {count}"
    else:
        return []
    return [(("serve", "mean_of"), text)]


def _lines(mistakes: list[Mistake], document: Document, name: str) -> list[str]:
    """A line for each mistake, in the order of the file."""
    order = {path: number for number, path in enumerate(document.places)}
    lines = []
    for path, text in mistakes:
        known = (path[:n] for n in range(len(path), 0, -1) if path[:n] in document.places)
        at = next(known, None)
        place = name if at is None else document.places[at]
        position = len(order) if at is None else order[at]
        where = (dotted(path) or "config") + _of_arm(path, document.data)
        lines.append((position, f"{place}: {where}: {text}"))
    return [line for _, line in sorted(lines, key=itemgetter(0))]


def _of_arm(path: MistakePath, data: Any) -> str:
    """' (arm x)' if the path leads into an arm that has a name, else an empty string."""
    if len(path) < 3 or path[0] != "arms":
        return ""
    try:
        name = data["arms"][path[1]]["name"]
    except (LookupError, TypeError):
        return ""
    return f" (arm {cut(name)})" if isinstance(name, str) and path[2] != "name" else ""
