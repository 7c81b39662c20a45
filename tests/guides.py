"""Commands and programs as the guides show them, so that a test and its page cannot differ."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

GUIDES = Path(__file__).parents[1] / "docs" / "guides"
BLOCK = re.compile(r"^```\w*\n(.*?)^```$|((?:^ {4}[^\n]*\n|^\n(?= {4}))+)", re.DOTALL | re.MULTILINE)
"""A fenced block, or an indented one."""


def block(page: str, begin: str) -> str:
    """Return the block of a guide whose text begins like this; the guide must have exactly one.

    Args:
        page: path of the page below `docs/guides`, without `.md`.
        begin: first characters of the block.
    """
    text = (GUIDES / f"{page}.md").read_text("utf-8")
    blocks = [fenced or textwrap.dedent(indented) for fenced, indented in BLOCK.findall(text)]
    (only,) = [each.strip("\n") + "\n" for each in blocks if each.lstrip("\n").startswith(begin)]
    return only
