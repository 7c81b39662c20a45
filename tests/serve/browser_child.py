"""Opens pages of `gavotte serve` in a real browser and prints what it finds, a JSON document in a line for each step.

Run by a Python that has Playwright and axe: browser_child.py CHROMIUM ADDRESS FOLDER PATH...
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-not-found]
from playwright.sync_api import sync_playwright  # type: ignore[import-not-found]

WAIT_MS = 20_000
LIVE = "() => document.getElementById('state').textContent === 'live'"
FRAMES = """async () => {
  const times = [];
  await new Promise(done => {
    let last = performance.now();
    const end = last + 2000;
    requestAnimationFrame(function next(now) {
      times.push(now - last);
      last = now;
      scrollBy(0, 40);
      now < end ? requestAnimationFrame(next) : done();
    });
  });
  return times;
}"""


def main() -> None:
    chromium, address, folder, *paths = sys.argv[1:]
    base = address.partition("?")[0].rstrip("/")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for scheme in ("light", "dark"):
            for width in (1400, 390):
                context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
                page = context.new_page()
                page.goto(address)
                for path in paths:
                    look(page, base, path, Path(folder) / f"{named(path)}-{scheme}-{width}.png")
                context.close()
        page = browser.new_context(viewport={"width": 1400, "height": 900}).new_page()
        page.goto(address)
        by_keyboard(page, base)
        started(page, base)
        watched(page, base)
        hostile(browser, base)
        load(page, base, paths)
        browser.close()


def named(path: str) -> str:
    return path.partition("?")[0].strip("/").replace("/", "-") or "networks"


def look(page: Any, base: str, path: str, picture: Path) -> None:
    """Take a picture of a page, and look for what is cut off, what axe finds, and what the browser complains about."""
    messages: list[str] = []

    def hear(message: Any) -> None:
        messages.append(str(getattr(message, "text", message)))

    page.on("console", hear)
    page.on("pageerror", hear)
    show(page, base, path)
    page.screenshot(path=str(picture), full_page=True)
    rules = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}
    faults = Axe().run(page, options=rules).response["violations"]
    tell(
        step="look",
        path=path,
        picture=picture.name,
        cut_off=page.evaluate("document.documentElement.scrollWidth - innerWidth"),
        faults=[f"{each['id']}: {each['nodes'][0]['html'][:100]}" for each in faults],
        messages=messages,
    )
    page.remove_listener("console", hear)
    page.remove_listener("pageerror", hear)


def tell(**step: object) -> None:
    print(json.dumps(step), flush=True)


def show(page: Any, base: str, path: str) -> None:
    page.goto(base + path)
    page.wait_for_function(LIVE, timeout=WAIT_MS)


def by_keyboard(page: Any, base: str) -> None:
    """From the networks to a pair with keys alone; each element that gets the focus shows it."""
    show(page, base, "/")
    seen = []
    for _ in range(40):
        page.keyboard.press("Tab")
        at = page.evaluate(
            "(e => [e.tagName, e.textContent.trim().slice(0, 20), getComputedStyle(e).outlineStyle])"
            "(document.activeElement)"
        )
        seen.append(at)
        if at[1] == "cloud":
            break
    page.keyboard.press("Enter")
    page.wait_for_url("**/networks/cloud", timeout=WAIT_MS)
    page.wait_for_function(LIVE, timeout=WAIT_MS)
    page.locator("select[name=target]").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_url("**/pair?**", timeout=WAIT_MS)
    tell(step="keyboard", seen=seen, heading=page.locator("h1").inner_text(), address=page.url)


def started(page: Any, base: str) -> None:
    """Start a command with keys alone. Its end appears automatically."""
    show(page, base, "/commands")
    page.locator("summary", has_text="Check the hosts").focus()
    page.keyboard.press("Enter")
    line = page.locator("details[open] code").inner_text()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_url("**/commands#run-*", timeout=WAIT_MS)
    shown = page.locator("section h3").first.inner_text()
    page.wait_for_function("() => document.querySelector('section h3').textContent.endsWith('done')", timeout=WAIT_MS)
    tell(step="started", line=line, shown=shown, output=page.locator("section pre").first.inner_text())


def watched(page: Any, base: str) -> None:
    """A new event appears automatically, and sections that the reader has unfolded stay unfolded."""
    show(page, base, "/events")
    page.locator("details").first.evaluate("each => each.open = true")
    tell(step="ready")
    page.wait_for_function(
        "() => document.querySelector('main').textContent.includes('the newest event')", timeout=WAIT_MS
    )
    tell(step="renewed", open=page.locator("details").first.evaluate("each => each.open"))
    sys.stdin.readline()
    page.wait_for_function("() => document.getElementById('state').textContent.startsWith('not live')", timeout=WAIT_MS)
    tell(step="alone", state=page.locator("#state").inner_text(), rows=page.locator("tr").count())
    sys.stdin.readline()
    page.wait_for_function(LIVE, timeout=WAIT_MS)
    tell(step="back", rows=page.locator("tr").count())


def hostile(browser: Any, base: str) -> None:
    """A page of another origin can neither read nor start anything, though the cookie is there."""
    page = browser.contexts[-1].new_page()
    page.goto("data:text/html,<h1>elsewhere</h1>")
    answers = page.evaluate(
        """async base => {
          const answers = [];
          for (const options of [{}, {method: "POST", body: "{}"}])
            answers.push(await fetch(base + "/api/jobs", {...options, credentials: "include"})
              .then(answer => answer.status, error => "refused"));
          // A page of another site may send a form without reading the answer.
          const body = new URLSearchParams({command: "check"});
          await fetch(base + "/commands", {method: "POST", mode: "no-cors", credentials: "include", body})
            .catch(() => "refused by the browser");
          return answers;
        }""",
        base,
    )
    page.set_content(
        f'<form action="{base}/commands" method="post"><input name="command" value="check"><button>win</button></form>'
    )
    page.locator("button").click()
    page.wait_for_url(base + "/commands", timeout=WAIT_MS)
    answers.append(page.locator("body").inner_text().strip())
    page.close()
    page = browser.contexts[-1].new_page()
    show(page, base, "/commands")
    tell(step="hostile", answers=answers, started=page.locator("section").count())
    page.close()


def load(page: Any, base: str, paths: list[str]) -> None:
    """Report the size of each page, its load time, and the time of frames while it is scrolled."""
    for path in paths:
        show(page, base, path)
        took = page.evaluate(
            """() => {
              const [page] = performance.getEntriesByType("navigation");
              const all = [page, ...performance.getEntriesByType("resource")];
              return [page.domContentLoadedEventEnd, all.reduce((sum, each) => sum + each.decodedBodySize, 0)];
            }"""
        )
        frames = sorted(page.evaluate(FRAMES))
        tell(
            step="load",
            path=path,
            load_ms=took[0],
            page_bytes=took[1],
            frames=len(frames),
            frame_median_ms=frames[len(frames) // 2],
            frame_p95_ms=frames[int(len(frames) * 0.95)],
        )


main()
