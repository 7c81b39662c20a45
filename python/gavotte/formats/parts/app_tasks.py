"""Tasks of an App's TOML, where there are very many.

Parsing them as TOML takes a third of the time in which they are read. Most differ in their names only.
"""

from __future__ import annotations

from typing import Any

import rtoml

from gavotte.formats.parts.app_transfers import section_of, without

MOST_KINDS = 100
"""Most different needs of tasks for which it pays to look at each need once."""

_ROW = "    { name = "


def cut_tasks(text: str) -> tuple[str, list[dict[str, Any]]] | None:
    """Cut many tasks out of an App's TOML, if they are written as `write_app` does and few of them have other needs.

    1. Quotes separate names from the rest of each line, which has no quotes.
    2. Each different rest is parsed once, as the only row of a list.
    3. A rest is one row and its comma, since it has no comment. The list of all rows is then what TOML reads.

    Returns:
        the text without them, and the tasks as TOML reads them; None = the text has another form, or few tasks.
    """
    section = section_of(text, "task")
    if section is None:
        return None
    first, *parts = text[slice(*section)].split('"')
    names, rests = parts[::2], parts[1::2]
    if first != _ROW or len(names) != len(rests) or not rests[-1].endswith("\n"):
        return None
    rests[-1] += _ROW
    kinds = set(rests)
    together = "".join(names)
    if len(kinds) > MOST_KINDS or "\\" in together or not together.isprintable():
        return None
    needs: dict[str, dict[str, Any]] = {}
    for rest in kinds:
        fields = _needs(rest)
        if fields is None:
            return None
        needs[rest] = fields
    tasks = [{"name": name, **needs[rest]} for name, rest in zip(names, rests, strict=True)]
    return without(text, "task", section), tasks


def _needs(rest: str) -> dict[str, Any] | None:
    """Return the fields of a task but its name, from its line after the name and the start of the next one."""
    line = rest.removesuffix(f"\n{_ROW}")
    if len(line) == len(rest) or not line.endswith("},") or "\n" in line or "#" in line:
        return None
    try:
        rows = rtoml.loads(f'task = [\n{{ name = ""{line}\n]\n')["task"]
    except ValueError:
        return None
    if len(rows) != 1 or rows[0].pop("name", None) != "":
        return None
    return dict(rows[0])
