"""Read and write YAML: 1e-3 is a number, duplicate keys are refused, every key has its line."""

import re
from dataclasses import dataclass
from typing import Any

import yaml

from divergence.errors import InputError
from orchestrator.validation.errors import Path, dotted, short


@dataclass(frozen=True, slots=True)
class Document:
    """The data of a YAML text, and the place of each path in it ("quick.yaml:12")."""

    data: Any
    places: dict[Path, str]


class _Loader(yaml.SafeLoader):
    """YAML 1.1 as PyYAML reads it, except that 1e-3 is a number and a date is a string."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(\d+(\.\d*)?|\.\d+)[eE][-+]?\d+$"),
    list("-+.0123456789"),
)


def parse(text: str, name: str) -> Document:
    """Parse `text`; `name` is the file name, for messages."""
    try:
        loader = _Loader(text)
        reader = _NodeReader(loader, name)
        node = loader.get_single_node()
        data = None if node is None else reader.read(node, ())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = name if mark is None else f"{name}:{mark.line + 1}"
        raise InputError(f"{place}: not YAML: {error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise InputError(f"{name}: not YAML: {' '.join(str(error).split())}") from None
    return Document(data, reader.places)


def dump(data: object) -> str:
    """`data` as YAML, which `parse` reads back unchanged."""
    return yaml.dump(data, Dumper=yaml.SafeDumper, sort_keys=False, allow_unicode=True)


class _NodeReader:
    """Builds the data of a node tree and records the place of each path."""

    def __init__(self, loader: _Loader, name: str) -> None:
        self.loader, self.name = loader, name
        self.places: dict[Path, str] = {}
        self.parents: list[yaml.Node] = []
        self.merged: list[yaml.Node] = []

    def read(self, node: yaml.Node, path: Path) -> Any:
        place = f"{self.name}:{node.start_mark.line + 1}"
        self.places.setdefault(path, place)
        if isinstance(node, yaml.ScalarNode):
            return self.loader.construct_object(node)
        if any(node is outer for outer in self.parents):
            raise InputError(f"{place}: {dotted(path)}: an alias must not contain itself")
        self.parents.append(node)
        if isinstance(node, yaml.MappingNode):
            data: Any = self._mapping(node, path)
        else:
            data = [self.read(item, (*path, i)) for i, item in enumerate(node.value)]
        self.parents.pop()
        return data

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        if not any(node is done for done in self.merged):  # not yet: an alias visits a node twice
            self._check_keys(node, path)
            self.loader.flatten_mapping(node)  # "<<" merges
            self.merged.append(node)
        data = {}
        for key, value in node.value:
            self.places[(*path, key.value)] = f"{self.name}:{key.start_mark.line + 1}"
            data[key.value] = self.read(value, (*path, key.value))
        return data

    def _check_keys(self, node: yaml.MappingNode, path: Path) -> None:
        lines: dict[str, int] = {}
        for key, _ in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                raise InputError(f"{self.name}:{line}: a key must be a plain string")
            if key.value in lines:
                raise InputError(
                    f"{self.name}:{line}: {dotted((*path, key.value))}: given twice, "
                    f"first on line {lines[key.value]}"
                )
            lines[key.value] = line


def override(document: Document, assignment: str) -> Document:
    """A copy of the document with one assignment `a.b.0.c=value` applied. The value is YAML."""
    place = f"--set {assignment}"
    key, equals, text = assignment.partition("=")
    if not equals or not all(key.split(".")):
        raise InputError(f"{place}: must have the form path.to.key=value")
    path = tuple(int(step) if step.isdecimal() else step for step in key.split("."))
    value = parse(text, place).data
    inside = {p: at for p, at in document.places.items() if p[: len(path)] != path}
    return Document(_put(document.data, path, value, place), {**inside, path: place})


def _put(data: Any, path: Path, value: Any, place: str) -> Any:
    if not path:
        return value
    step, rest = path[0], path[1:]
    if isinstance(data, list):
        if not isinstance(step, int) or step >= len(data):
            raise InputError(
                f"{place}: {short(step)} must be the index of a list of {len(data)} entries"
            )
        return [_put(d, rest, value, place) if i == step else d for i, d in enumerate(data)]
    if data is not None and not isinstance(data, dict):
        raise InputError(f"{place}: {short(step)} cannot be set inside {short(data)}")
    return {**(data or {}), str(step): _put((data or {}).get(str(step)), rest, value, place)}
