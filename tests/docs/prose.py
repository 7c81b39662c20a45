"""Finds the prose of a source file: pages, docstrings, comments and messages, each with its line."""

from __future__ import annotations

import ast
import inspect
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

CODE = re.compile(r"(?s:```.*?```)|^(?: {4}|\t).*$", re.MULTILINE)
LITERAL = re.compile(r"``?[^`\n]+``?")
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
ADDRESS = re.compile(r"https?://\S+")
OPTION = re.compile(r"--[a-z][a-z-]+")
SECTION = re.compile(r"^(?:Args|Attributes|Raises|Returns|Yields|Examples?|Note):$", re.MULTILINE)
ENTRY = re.compile(r"^ {4}(?:\w+: )?(?=\S)", re.MULTILINE)
"""An item of a docstring's section, with the name that it explains. Its lines are indented, but are no code."""
ITEM = re.compile(r"^\s*(?:[-*]|\d+\.)\s+|^#+\s+|^>\s?", re.MULTILINE)
END_OF_SENTENCE = re.compile(r"[.!?:](?=\s|$)")
RUST_PIECE = re.compile(
    r'//[/!]?(?P<comment>[^\n]*)|(?P<fence>r(?P<hash>#*)".*?"(?P=hash))|"(?P<string>(?:\\.|[^"\\])*)"|\'(?:\\.|[^\'\\])\'',
    re.DOTALL,
)
LEAST_WORDS = 3
"""A string with fewer words is a key or a name, not a message."""


class Text(NamedTuple):
    """A piece of prose.

    Attributes:
        line: its first line in the file, from 1.
        text: without code and markup.
        whole: whether it consists of sentences; a message is often only part of one.
    """

    line: int
    text: str
    whole: bool


def prose_of(path: Path) -> list[Text]:
    """Return the prose of a file, by its ending."""
    source = path.read_text("utf-8")
    if path.suffix == ".md":
        return [Text(line, text, whole=True) for line, text in paragraphs(source)]
    if path.suffix == ".rs":
        return list(_rust(source))
    if path.suffix in (".proto", ".c", ".h"):
        return [Text(line, text, whole=True) for line, text in _slashes(source)]
    if path.suffix == ".ambr":
        return [
            Text(number, OPTION.sub("option", line), whole=False) for number, line in enumerate(source.splitlines(), 1)
        ]
    return list(_python(source))


def plain(text: str) -> str:
    """Return text without code, literals, names of options, link targets and addresses."""
    text = OPTION.sub("option", CODE.sub("", text))
    return ADDRESS.sub("URL", LINK.sub(r"\1", LITERAL.sub("literal", text)))


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of plain prose; items of lists and headings are sentences of their own."""
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.)\s)|\n(?=#)", text):
        for sentence in END_OF_SENTENCE.split(ITEM.sub("", block)):
            if sentence.strip():
                yield " ".join(sentence.split())


def paragraphs(source: str) -> Iterator[tuple[int, str]]:
    """Yield the first line and the plain prose of each paragraph of a Markdown page, tables and code left out."""
    blank = re.sub(r"```.*?```", lambda match: "\n" * match.group().count("\n"), source, flags=re.DOTALL)
    at = 1
    for block in re.split(r"(\n\s*\n)", blank):
        lines = [line for line in block.splitlines() if not line.startswith(("|", "    "))]
        if any(line.strip() for line in lines):
            yield at, plain("\n".join(lines))
        at += block.count("\n")


def _python(source: str) -> Iterator[Text]:
    tree = ast.parse(source)
    docstrings = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            whole = id(node) in docstrings
            if whole or len(node.value.split()) >= LEAST_WORDS:
                yield Text(node.lineno, plain(ast.unparse(node) if not whole else _docstring(node.value)), whole=whole)
    comments = (
        each for each in tokenize.generate_tokens(io.StringIO(source).readline) if each.type == tokenize.COMMENT
    )
    yield from _joined((token.start[0], token.string.lstrip("# ")) for token in comments)


def _docstring(text: str) -> str:
    """Return a docstring with each entry of its sections as an item of a list."""
    head, *sections = SECTION.split(inspect.cleandoc(text))
    entries = (re.sub(r"^ {5,}", "  ", ENTRY.sub("- ", section), flags=re.MULTILINE) for section in sections)
    return "\n\n".join([head, *entries])


def _rust(source: str) -> Iterator[Text]:
    comments: list[tuple[int, str]] = []
    for result in RUST_PIECE.finditer(source):
        line = source.count("\n", 0, result.start()) + 1
        if result["comment"] is not None:
            comments.append((line, result["comment"]))
        elif result["string"] is not None and len(result["string"].split()) >= LEAST_WORDS:
            yield Text(line, plain(result["string"]), whole=False)
    yield from _joined(comments)


def _slashes(source: str) -> Iterator[tuple[int, str]]:
    for result in re.finditer(r"/\*.*?\*/|(?://[^\n]*\n\s*)+", source, re.DOTALL):
        yield (
            source.count("\n", 0, result.start()) + 1,
            plain(re.sub(r"^\s*(?://|/\*|\*/?)", "", result.group(), flags=re.MULTILINE)),
        )


def _joined(comments: Iterator[tuple[int, str]] | list[tuple[int, str]]) -> Iterator[Text]:
    """Join the comments of consecutive lines."""
    start, last, lines = 0, -1, list[str]()
    for line, text in comments:
        if line != last + 1 and lines:
            yield Text(start, plain("\n".join(lines)), whole=True)
            lines = []
        if not lines:
            start = line
        lines.append(text)
        last = line
    if lines:
        yield Text(start, plain("\n".join(lines)), whole=True)
