"""Modules of the user's own: a rule or a source that a config names as `module:Name`.

A module is imported only from a folder that the user has named (`allow`): a config or a run folder
alone never makes anything run. Its source, and that of the modules of the same folders which it
imports, is hashed, so that a run notices a change, and travels with its rules to other processes.
"""

import ast
import hashlib
import importlib
import re
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.abc import InspectLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, spec_from_loader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, NamedTuple

from divergence.errors import InputError, one_line


class SourceFile(NamedTuple):
    """The source of a module, and where it was found."""

    text: str
    is_package: bool
    origin: str


class _Finder(MetaPathFinder, InspectLoader):
    """Finds modules in the allowed folders, and among the sources that another process sent."""

    def __init__(self) -> None:
        self.folders: tuple[Path, ...] = ()
        self.files: dict[str, SourceFile] = {}

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        file = self.files.get(name) or self._read(name)
        if file is None or _is_another(file, name, path):
            return None
        self.files[name] = file
        return spec_from_loader(name, self, origin=file.origin, is_package=file.is_package)

    def _read(self, name: str) -> SourceFile | None:
        for folder in self.folders:
            base = folder.joinpath(*name.split("."))
            for path in (base.with_suffix(".py"), base / "__init__.py"):
                if path.is_file():
                    text = path.read_text(encoding="utf-8")
                    return SourceFile(text, path.name == "__init__.py", str(path))
        return None

    def get_source(self, fullname: str) -> str:
        return self.files[fullname].text

    def get_code(self, fullname: str) -> CodeType:
        file = self.files[fullname]
        return self.source_to_code(file.text, file.origin)

    def is_package(self, fullname: str) -> bool:
        return self.files[fullname].is_package

    def forget(self, names: Iterable[str]) -> None:
        """Import these modules anew when they are needed."""
        for name in tuple(names):
            self.files.pop(name, None)
            sys.modules.pop(name, None)


def _is_another(file: SourceFile, name: str, path: Sequence[str] | None) -> bool:
    """Whether Python finds another module of this name: that one comes first.

    The user's own may be on Python's path, too, as in a process that works in its folder.
    """
    for finder in sys.meta_path:
        spec = None if finder is _FINDER else finder.find_spec(name, path, None)
        if spec is not None:
            same = (
                spec.origin is not None
                and spec.origin.endswith(".py")
                and (
                    spec.origin == file.origin
                    or Path(spec.origin).read_text(encoding="utf-8", errors="replace") == file.text
                )
            )
            return not same
    return False


_FINDER = _Finder()


def allow(folders: Iterable[str | Path]) -> None:
    """From now on, modules in these folders may be imported, and no others."""
    _FINDER.forget(_FINDER.files)
    _FINDER.folders = tuple(Path(folder).resolve() for folder in folders)


def folders() -> tuple[Path, ...]:
    """The folders that the user has named."""
    return _FINDER.folders


def is_origin(file: str) -> bool:
    """Whether a file is the source of a module of the user's own."""
    return any(file == known.origin for known in _FINDER.files.values())


def lines_with(word: str) -> list[str]:
    """The lines of the user's modules that have a word, as "file, line N"."""
    return [
        f"{file.origin}, line {number}"
        for file in _FINDER.files.values()
        for number, line in enumerate(file.text.splitlines(), 1)
        if re.search(rf"\b{word}\b", line)
    ]


def is_reference(name: object) -> bool:
    """Whether a name is `module:Name`."""
    module, _, member = name.partition(":") if isinstance(name, str) else ("", "", "")
    return all(part.isidentifier() for part in (*module.split("."), member))


def is_allowed(reference: str) -> bool:
    """Whether the module of a reference is in a folder that the user has named."""
    module = reference.partition(":")[0]
    return module in _FINDER.files or _FINDER._read(module) is not None


def load(reference: str) -> Any:
    """The object that `module:Name` names. InputError where it cannot be had."""
    module, _, name = reference.partition(":")
    if not is_allowed(reference):
        file = f"{module.replace('.', '/')}.py"
        where = ", ".join(map(str, _FINDER.folders))
        raise InputError(
            f"{reference}: there is no {file} in {where}: check --code"
            if where
            else f"{reference} is code of your own, which runs only if you name the folder that "
            f"holds {file}: --code FOLDER"
        )
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)
    top = module.partition(".")[0]
    taken = find_spec(top)
    if taken is not None and taken.loader is not _FINDER:
        raise InputError(f"{reference}: Python has another module {top} already: rename yours")
    try:
        found = importlib.import_module(module)
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{_FINDER.files[module].origin}: {blame(error)}") from error
    if not hasattr(found, name):
        raise InputError(f"{_FINDER.files[module].origin}: has no {name}")
    return getattr(found, name)


def blame(error: Exception) -> str:
    """An error of the user's code in one line, with the line where it happened."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if is_origin(f.filename)]
    line = error.lineno if isinstance(error, SyntaxError) else frames[-1].lineno if frames else None
    return f"{f'line {line}: ' if line else ''}{type(error).__name__}: {one_line(error)}"


def sources_of(reference: str) -> dict[str, SourceFile]:
    """The sources that a loaded reference depends on: its module's, and those it imports."""
    found: dict[str, SourceFile] = {}
    waiting = [reference.partition(":")[0]]
    while waiting:
        name = waiting.pop()
        if name in _FINDER.files and name not in found:
            found[name] = _FINDER.files[name]
            waiting += [name.rpartition(".")[0], *_imports(name, found[name])]
    return dict(sorted(found.items()))


def _imports(name: str, file: SourceFile) -> Iterator[str]:
    """The names of what may be modules that a source imports."""
    for node in ast.walk(ast.parse(file.text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            steps = node.level - file.is_package
            base = name.rsplit(".", steps)[0] if node.level and steps else name
            whole = ".".join(filter(None, (base if node.level else "", node.module)))
            yield from (whole, *(f"{whole}.{alias.name}" for alias in node.names))


def code_hash(reference: str) -> str:
    """A hash of the sources that a loaded reference depends on."""
    digest = hashlib.sha256()
    for name, file in sources_of(reference).items():
        digest.update(f"{name}\0{file.text}\0".encode())
    return digest.hexdigest()


def load_rule_class(reference: str) -> Any:
    """The class of a rule, made so that its instances bring their code to other processes."""
    kind = load(reference)
    if isinstance(kind, type) and "code_hash" not in vars(kind):
        files: Mapping[str, SourceFile] = sources_of(reference)

        def reduce(self: Any) -> tuple[Any, ...]:
            return _rebuilt, (files, reference, tuple(self))

        marked: Any = kind
        marked.__reduce__, marked.code_hash = reduce, code_hash(reference)
        # numba names compiled code after the class: two classes of one name would share it.
        marked.__name__ = f"{kind.__name__}_{marked.code_hash[:12]}"
    return kind


def _rebuilt(files: Mapping[str, SourceFile], reference: str, values: tuple[Any, ...]) -> Any:
    """A rule in a process that may not have its code yet."""
    receive(files)
    return load_rule_class(reference)(*values)


def receive(files: Mapping[str, SourceFile]) -> None:
    """Sources that another process has sent: they may be imported here."""
    texts = {name: file.text for name, file in _FINDER.files.items()}
    if any(texts.get(name) != file.text for name, file in files.items()):
        _FINDER.forget(files)
        _FINDER.files.update(files)
