"""Read and write YAML: 1e-3 is a number, duplicate keys are refused, every key has its line.

Texts may come from strangers: their size, depth, numbers and the expansion of aliases are bounded.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from divergence.errors import InputError
from orchestrator.validation.errors import MAX_SHOWN, Path, cut, dotted, short
from orchestrator.validation.uris import redact

MAX_LENGTH = 4_000_000
MAX_DEPTH = 64
MAX_NODES = 300_000
"""The most entries of a document, with all aliases expanded."""
MAX_DIGITS = 100
"""The most characters of a number."""
NOT_TEXT = re.compile("[\0\ud800-\udfff]")
MERGE = "tag:yaml.org,2002:merge"
SECRET = "storage_options"
"""No message shows the values below this key."""


@dataclass(frozen=True, slots=True)
class Document:
    """The data of a YAML text, and the place of each path in it ("quick.yaml:12")."""

    data: Any
    places: dict[Path, str]


class _Loader(yaml.SafeLoader):
    """YAML 1.1 as PyYAML reads it, except that 1e-3 is a number and a date is a string."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Refuse what is nested too deeply, which PyYAML would answer with a RecursionError."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(None, None, f"nested more than {MAX_DEPTH} deep", mark)
        node: yaml.Node | None = super().compose_node(parent, index)
        self.depth -= 1
        return node


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
    if len(text) > MAX_LENGTH:
        raise InputError(f"{name}: must have at most {MAX_LENGTH} characters, but has more")
    try:
        loader = _Loader(text)
        reader = _NodeReader(loader, name)
        node = loader.get_single_node()
        data = None if node is None else reader.read(node, ())
    except yaml.MarkedYAMLError as error:
        mark, problem = _problem(error)
        place = name if mark is None else f"{name}:{mark.line + 1}"
        if SECRET in text or SECRET in name:  # a password may look like a tag or an alias
            problem = re.sub("'[^']*'", "'…'", problem)
        raise InputError(f"{place}: not YAML: {problem}") from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # "\U00110000" is no character
        raise InputError(f"{name}: not YAML: {' '.join(str(error).split())}") from None
    return Document(data, reader.places)


def _problem(error: yaml.MarkedYAMLError) -> tuple[yaml.Mark | None, str]:
    """What is wrong, and where: an open quote where it opens, not at the end of the file."""
    mark, problem = error.problem_mark or error.context_mark, str(error.problem or error.context)
    if error.context == "while scanning a quoted scalar" and "end of stream" in problem:
        return error.context_mark, "a quote opens here and never closes"
    if "'\\t'" in problem:
        problem = "a tab cannot indent: use spaces"
    return mark, problem


def dump(data: object) -> str:
    """`data` as YAML, which `parse` reads back unchanged."""
    return yaml.dump(data, Dumper=yaml.SafeDumper, sort_keys=False, allow_unicode=True)


Pairs = list[tuple[yaml.ScalarNode, yaml.Node]]


class _NodeReader:
    """Builds the data of a node tree and records the place of each path."""

    def __init__(self, loader: _Loader, name: str) -> None:
        self.loader, self.name = loader, name
        self.places: dict[Path, str] = {}
        self.parents: set[int] = set()
        self.pairs: dict[int, Pairs] = {}
        self.nodes = 0

    def read(self, node: yaml.Node, path: Path) -> Any:
        place = self._place(node)
        self.places.setdefault(path, place)
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise InputError(f"{place}: more than {MAX_NODES} entries with its aliases expanded")
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path)
        if id(node) in self.parents or len(path) > MAX_DEPTH:
            raise InputError(f"{place}: {dotted(path)}: an alias must not contain itself")
        self.parents.add(id(node))
        if isinstance(node, yaml.MappingNode):
            data: Any = self._mapping(node, path)
        else:
            data = [self.read(item, (*path, i)) for i, item in enumerate(node.value)]
        self.parents.remove(id(node))
        return data

    def _scalar(self, node: yaml.ScalarNode, path: Path) -> Any:
        kind = node.tag.rpartition(":")[2]
        where = f"{self._place(node)}: {dotted(path)}"
        if kind in ("int", "float") and len(node.value) > MAX_DIGITS:
            raise InputError(
                f"{where}: a number must have at most {MAX_DIGITS} characters, but has "
                f"{len(node.value)}"
            )
        if NOT_TEXT.search(node.value):
            raise InputError(f"{where}: must be text, but has a NUL or half a character in it")
        try:
            return self.loader.construct_object(node)
        except (ValueError, LookupError, AttributeError):  # !!int x, !!timestamp x
            value = "…" if SECRET in path or SECRET in self.name else short(node.value)
            raise InputError(f"{where}: {value} is not a valid {kind}") from None

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        data = {}
        for key, value in self._merged(node, path):
            self.places[(*path, key.value)] = self._place(key)
            data[key.value] = self.read(value, (*path, key.value))
        return data

    def _merged(self, node: yaml.MappingNode, path: Path) -> Pairs:
        """The keys and values of a mapping: those that "<<" merges first, then its own.

        A key appears once, so that the merges of merges cannot outgrow the text.
        """
        if id(node) not in self.pairs:
            self.pairs[id(node)] = []  # of a mapping that merges itself
            own = self._checked_keys(node, path)
            merged: dict[str, tuple[yaml.ScalarNode, yaml.Node]] = {}
            for key, value in node.value:
                if key.tag == MERGE:
                    for other in reversed(list(self._mappings(value))):
                        merged |= {k.value: (k, v) for k, v in self._merged(other, path)}
            self.pairs[id(node)] = list((merged | own).values())
        return self.pairs[id(node)]

    def _mappings(self, node: yaml.Node) -> Iterator[yaml.MappingNode]:
        """The mappings that a "<<" names: one, or a list of them."""
        for item in node.value if isinstance(node, yaml.SequenceNode) else [node]:
            if not isinstance(item, yaml.MappingNode):
                raise InputError(f"{self._place(item)}: << must be a mapping or a list of them")
            yield item

    def _checked_keys(
        self, node: yaml.MappingNode, path: Path
    ) -> dict[str, tuple[yaml.ScalarNode, yaml.Node]]:
        """A mapping's own keys and values."""
        found: dict[str, tuple[yaml.ScalarNode, yaml.Node]] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode) or NOT_TEXT.search(key.value):
                raise InputError(f"{self._place(key)}: a key must be a plain string")
            if key.value in found:
                raise InputError(
                    f"{self._place(key)}: {dotted((*path, key.value))}: given twice, first on line "
                    f"{found[key.value][0].start_mark.line + 1}"
                )
            found[key.value] = key, value
        return {name: pair for name, pair in found.items() if pair[0].tag != MERGE}

    def _place(self, node: yaml.Node) -> str:
        return f"{self.name}:{node.start_mark.line + 1}"


def override(document: Document, assignment: str) -> Document:
    """A copy of the document with one assignment `a.b.0.c=value` applied. The value is YAML."""
    place = f"--set {_brief(assignment)}"
    key, equals, text = assignment.partition("=")
    steps = key.split(".")
    if not equals or not all(steps) or len(steps) > MAX_DEPTH or NOT_TEXT.search(key):
        raise InputError(f"{place}: must have the form path.to.key=value")
    path = tuple(int(step) if step.isdecimal() and len(step) < 10 else step for step in steps)
    value = parse(text, place).data
    others = {p: at for p, at in document.places.items() if p[: len(path)] != path}
    made = {path[:n]: place for n in range(1, len(path) + 1) if path[:n] not in others}
    return Document(_put(document.data, path, value, place), {**others, **made})


def shown_assignment(assignment: str) -> str:
    """A `--set` assignment for a message or a command line: without what may be a secret."""
    key, equals, _ = assignment.partition("=")
    if SECRET not in assignment and redact(assignment) == assignment:
        return assignment
    return f"{cut(redact(key))}{equals}…" if equals else "…"


def _brief(assignment: str) -> str:
    shown = shown_assignment(assignment)
    if len(shown) <= MAX_SHOWN:
        return shown
    key, equals, value = shown.partition("=")
    return f"{cut(key)}{equals}{cut(value)}"


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
        inside = "…" if SECRET in place else short(data)
        raise InputError(f"{place}: {short(step)} cannot be set inside {inside}")
    return {**(data or {}), str(step): _put((data or {}).get(str(step)), rest, value, place)}
