"""The documentation: links and paths resolve, commands parse, the example runs."""

import re
import shlex
from pathlib import Path

import click
import pytest

from orchestrator.cli import holdfast
from scripts.results.parts import PARTS

ROOT = Path(__file__).parent.parent
FOLDERS = ("configs", "divergence", "orchestrator", "scripts", "tests", "trainer")
PAGES = sorted(
    path
    for folder in (".", ".github", *(f"{name}/**" for name in FOLDERS))
    for path in ROOT.glob(f"{folder}/*.md")
)
LINK = re.compile(r"\]\(([^)\s]+)\)")
NAMED = re.compile(rf"(?<![\w./-])(?:{'|'.join(FOLDERS)})/[\w./*<>-]*[\w/*>]")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^(?:.* )?(?:\S*holdfast|python -m orchestrator) (.*)$", re.MULTILINE)

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in headings}


@every_page
def test_links_resolve(page: Path) -> None:
    wrong = []
    for link in LINK.findall(page.read_text(encoding="utf-8")):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if "://" in link:
            continue
        if not target.exists() or (anchor and anchor not in anchors(target)):
            wrong.append(link)
    assert wrong == []


@every_page
def test_paths_exist(page: Path) -> None:
    named = set(NAMED.findall(page.read_text(encoding="utf-8")))
    assert [path for path in named if "<" not in path and not list(ROOT.glob(path))] == []


@every_page
def test_commands_parse(page: Path) -> None:
    blocks = [
        body for kind, body in FENCE.findall(page.read_text(encoding="utf-8")) if kind == "sh"
    ]
    for arguments in COMMAND.findall("".join(blocks).replace("\\\n", " ")):
        parse(holdfast, shlex.split(arguments, comments=True))


def parse(command: click.Command, words: list[str]) -> None:
    """A UsageError where the command has no such subcommand or option."""
    context = click.Context(command)
    if isinstance(command, click.Group):
        _, inner, rest = command.resolve_command(context, words)
        assert inner is not None
        parse(inner, rest)
    else:
        command.make_parser(context).parse_args(words)


def test_the_readme_is_short_and_names_every_command() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 230
    assert [name for name in holdfast.commands if f"`holdfast {name} " not in text] == []


def test_the_architecture_names_every_package() -> None:
    text = (ROOT / "orchestrator" / "README.md").read_text(encoding="utf-8")
    packages = [path.parent.name for path in (ROOT / "orchestrator").glob("*/__init__.py")]
    assert [name for name in packages if f"\n| `{name}` |" not in text] == []


def test_the_results_show_todays_explanations() -> None:
    text = (ROOT / "scripts" / "results" / "README.md").read_text(encoding="utf-8")
    shown = re.findall(r"^Why, as far as we can tell: (.*)$", text, re.MULTILINE)
    assert set(shown) <= {part.explanation for part in PARTS}


def test_the_example_runs() -> None:
    text = (ROOT / "trainer" / "README.md").read_text(encoding="utf-8")
    (example,) = (body for kind, body in FENCE.findall(text) if kind == "python")
    found: dict[str, object] = {}
    exec(example, found)
    assert len(found["probabilities"]) == 3  # type: ignore[arg-type]
