"""The quickstart notebook runs on an emulated cloud, in the order of its cells."""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOK = json.loads((ROOT / "docs" / "quickstart.ipynb").read_text("utf-8"))


@pytest.mark.lab
def test_the_notebook_runs() -> None:
    from matplotlib import pyplot

    before = mpl.get_backend()
    pyplot.switch_backend("agg")
    names: dict[str, Any] = {}
    try:
        asyncio.run(carried_out(names))
        assert len(pyplot.get_fignums()) == 3
    finally:
        if "hosts" in names:
            names["cloud"].__exit__(None, None, None)
        pyplot.close("all")
        pyplot.switch_backend(before)
    assert len(names["hosts"].host) == 10
    assert names["network"].unknown_pairs == 0
    placed, blind = names["seconds"]["placed"], names["seconds"]["blind"]
    assert placed[0] <= blind[0]
    assert placed[1] > 0


async def carried_out(names: dict[str, Any]) -> None:
    """Run the code of all cells but the last, which ends the cloud."""
    code = ["".join(cell["source"]) for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]
    assert code[-1] == "cloud.__exit__(None, None, None)"
    for number, text in enumerate(code[:-1]):
        compiled = compile(text, f"cell {number}", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        awaited = eval(compiled, names)
        if inspect.isawaitable(awaited):
            await awaited


def test_it_is_kept_without_outputs() -> None:
    for cell in NOTEBOOK["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            assert cell["execution_count"] is None
