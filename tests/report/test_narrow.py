"""The page in a real browser: on a screen of 390 pixels nothing is cut off, and a dark screen is dark."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.report.test_report import experimented, measured, placed, ranks

from gavotte.model import model
from gavotte.report import Outcome, report

CHROMIUM = shutil.which("chromium")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")]

FRAME = """<!doctype html><iframe id="page" src="{page}" style="width: 390px; height: 800px; border: 0"></iframe>
<pre id="seen"></pre>
<script>
document.getElementById("page").onload = event => {{
  const page = event.target.contentDocument;
  const wide = [...page.querySelectorAll("body *")].filter(each => !each.closest(".picture") && each.id !== "tip")
    .filter(each => each.getBoundingClientRect().right > 390.5);
  document.getElementById("seen").textContent = JSON.stringify({{
    width: page.documentElement.scrollWidth,
    wide: wide.map(each => each.outerHTML.slice(0, 90)),
    paper: getComputedStyle(page.body).backgroundColor,
  }});
}};
</script>"""


def seen(page: Path, *options: str) -> dict[str, Any]:
    """Return what a browser makes of a page in a frame of 390 pixels."""
    frame = page.with_name("frame.html")
    frame.write_text(FRAME.format(page=page.name))
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files", *options]
    command += [f"--user-data-dir={page.parent}/browser", "--virtual-time-budget=5000", "--dump-dom", frame.as_uri()]
    text = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True).stdout  # type: ignore[arg-type]
    match = re.search(r'<pre id="seen">(.*?)</pre>', text, re.DOTALL)
    assert match is not None, text[-500:]
    result: dict[str, Any] = json.loads(match[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
    return result


def test_nothing_is_cut_off_on_a_phone(tmp_path: Path) -> None:
    past, app = measured([f"compute-node-{i:03d}.zone-b.prod.example" for i in range(10)]), ranks(16)
    network = model(past)
    outcomes = [Outcome(placed(network, app), 3.0, 2.5), Outcome(placed(network, app), None, 2.6)]
    report(tmp_path / "all.html", network, history=past, apps=[app], outcomes=outcomes)
    report(tmp_path / "links.html", experimented())
    for name in ("all.html", "links.html"):
        page = seen(tmp_path / name)
        assert page["width"] <= 390
        assert page["wide"] == []
        assert page["paper"] == "rgb(255, 255, 255)"


def test_a_dark_screen_has_a_dark_page(tmp_path: Path) -> None:
    report(tmp_path / "r.html", experimented())
    assert seen(tmp_path / "r.html", "--blink-settings=preferredColorScheme=0")["paper"] == "rgb(20, 23, 27)"
