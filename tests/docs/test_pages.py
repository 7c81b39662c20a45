"""Every link leads somewhere, and results agree with their recorded numbers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from benches.figures import PLACE, RESULTS, digest, figures, page

TREE = Path(__file__).parents[2]
PAGES = list(TREE.glob("*.md")) + sorted((TREE / "docs").rglob("*.md")) + sorted(TREE.glob("examples/*/*.md"))
LINK = re.compile(r"\]\(([^)\s]+)\)")
FIGURES = figures()


def prose(path: Path) -> str:
    """Return a page without its code, in which brackets are not links."""
    return re.sub(r"```.*?```|`[^`\n]*`|^    .*$", "", path.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)


def targets(path: Path) -> list[tuple[Path, str]]:
    """Return a page's links in this tree: file and anchor."""
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
