"""Every page is linked from the index, every link leads somewhere, and results are what their recorded numbers say."""

from __future__ import annotations

import re
from collections import Counter
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest
from benches.figures import PLACE, RESULTS, digest, figures, page

import gavotte

TREE = Path(__file__).parents[2]
INDEX = TREE / "docs" / "README.md"
PAGES = list(TREE.glob("*.md")) + sorted((TREE / "docs").rglob("*.md")) + sorted(TREE.glob("examples/*/*.md"))
LINK = re.compile(r"\]\(([^)\s]+)\)")
FIGURES = figures()


def prose(path: Path) -> str:
    """A page without its code, in which brackets are no links."""
    return re.sub(r"```.*?```|`[^`\n]*`|^    .*$", "", path.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)


def targets(path: Path) -> list[tuple[Path, str]]:
    """What a page links to in this tree: file and anchor."""
    links = [link.partition("#") for link in LINK.findall(prose(path)) if "://" not in link]
    return [((path.parent / file).resolve() if file else path, anchor) for file, _, anchor in links]


def anchors(path: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", path.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(TREE)))
def test_every_link_leads_somewhere(path: Path) -> None:
    for target, anchor in targets(path):
        assert target.exists(), target
        assert not anchor or anchor in anchors(target), f"{target}#{anchor}"


def test_every_page_is_linked_from_the_index() -> None:
    linked = {target for target, _ in targets(INDEX)}
    assert sorted(set((TREE / "docs").rglob("*.md")) - linked - {INDEX}) == []


GLOSSARY = TREE / "docs" / "reference" / "glossary.md"
ROW = re.compile(r"^\| ([^|]+) \| [^|]+ \| ([^|]*) \| [^|]*\|$", re.MULTILINE)


def defined(name: str) -> bool:
    """Whether the tree has a crate, a file, or a module's name that the glossary gives."""
    paths = (
        TREE / "crates" / name,
        TREE / "crates" / "agent" / "src" / name,
        TREE / "proto" / "gavotte" / "agents" / name,
    )
    if any(path.exists() for path in paths):
        return True
    found: object = gavotte
    for word in name.split("."):
        if word in getattr(found, "model_fields", {}):
            return True
        module = f"{found.__name__}.{word}" if isinstance(found, ModuleType) and hasattr(found, "__path__") else ""
        if module and find_spec(module):
            found = import_module(module)
        elif hasattr(found, word):
            found = getattr(found, word)
        else:
            return word in getattr(found, "__annotations__", {})
    return True


def test_the_glossary_has_each_word_once_and_says_where_it_is_defined() -> None:
    rows = [row for row in ROW.findall(GLOSSARY.read_text("utf-8")) if row[0] not in ("word", "---")]
    words = Counter(word for word, _ in rows)
    assert [word for word, times in words.items() if times > 1] == []
    names = {name for _, places in rows for name in re.findall(r"`([^`]+)`", places)}
    assert sorted(name for name in names if not defined(name)) == []


def test_tables_of_results_are_their_data() -> None:
    shown = []
    for path in RESULTS.glob("*.md"):
        text = path.read_text("utf-8")
        shown += [match[1] for match in PLACE.finditer(text)]
        assert text == page(text, FIGURES), f"{path}: run `make bench-figures`"
    assert sorted(shown) == sorted(FIGURES)


@pytest.mark.parametrize("name", FIGURES)
def test_a_plot_is_drawn_from_its_data(name: str) -> None:
    figure = FIGURES[name]
    assert digest(figure) in (RESULTS / "plots" / f"{name}.svg").read_text("utf-8"), "run `make bench-figures`"
    assert all(figure[key] for key in ("title", "command", "machine", "date", "seed", "samples"))
    assert {len(row) for row in figure["rows"]} == {len(figure["columns"])}
