"""The pages in a real Chromium: wide and narrow, light and dark, by keyboard alone, live, and large."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.serve.served import serving
from tests.serve.stored import event, filled
from tests.serve.test_pages import PAGES
from tests.shell import gavotte

from gavotte import lab
from gavotte.store import open_store

CHROMIUM, PYTHON = shutil.which("chromium"), os.environ.get("GAVOTTE_BROWSER")
pytestmark = [
    pytest.mark.lab,
    pytest.mark.rare,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not (CHROMIUM and PYTHON), reason="needs `make test-browser`"),
]
ALL = [*PAGES, "/commands", "/guarantees"]
CHILD = Path(__file__).with_name("browser_child.py")


@contextmanager
def child(address: str, folder: Path) -> Iterator[tuple[Iterator[dict[str, Any]], Callable[[], None]]]:
    """Run a browser on all pages. Yields what it finds in each step, and a function that makes it continue."""
    command = [str(PYTHON), str(CHILD), str(CHROMIUM), address, str(folder), *ALL]
    own = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=own) as process:
        assert process.stdout is not None
        to_child = process.stdin
        assert to_child is not None

        def go_on() -> None:
            print(file=to_child, flush=True)

        try:
            yield map(json.loads, process.stdout), go_on
            assert process.wait(60) == 0
        finally:
            process.kill()


@pytest.mark.parametrize(("hosts", "events"), [(12, 60), (200, 10_000)])
def test_people_can_read_and_use_every_page(tmp_path: Path, small_cloud: lab.Session, hosts: int, events: int) -> None:
    folder = Path(os.environ.get("GAVOTTE_SCREENSHOTS") or tmp_path)
    filled(tmp_path / "s.sqlite3", hosts=hosts, snapshots=30 if hosts < 100 else 10, events=events)
    inventory = str(small_cloud.hosts_file)
    guarantee = tmp_path / "g.guarantee.toml"
    guarantee.write_text(
        'format = "gavotte/guarantee/1"\n'
        + "".join(f'[[guarantee]]\nhost = "{name}"\negress = "20mbit"\ningress = "20mbit"\n' for name in "abc")
    )
    assert gavotte("guarantee", "apply", guarantee, "--hosts", inventory).returncode == 0
    words = ["--store", "s.sqlite3", "--token-file", "token", "--hosts", inventory, "--guarantee", str(guarantee)]
    with serving(tmp_path, *words, has_network=False) as server, child(server.address, folder) as (steps, go_on):
        for _ in range(4 * len(ALL)):
            look = next(steps)
            assert look["cut_off"] <= 0, look
            assert look["faults"] == look["messages"] == [], look
        keyboard = next(steps)
        assert all(outline == "solid" for _, _, outline in keyboard["seen"]), keyboard
        assert keyboard["heading"] == "vm000 to vm002"
        started = next(steps)
        assert started["line"] == f"gavotte hosts check --hosts {inventory}"
        assert started["shown"].startswith("Check the hosts: ")
        assert "3 of 3 hosts can be used" in started["output"]
        assert next(steps)["step"] == "ready"
        with open_store(tmp_path / "s.sqlite3") as store:
            newest = event(0, time.time() + 60, ["vm001"])
            store.add_records([newest.model_copy(update={"labels": newest.labels | {"text": "the newest event"}})])
        assert next(steps)["open"]
        server.process.send_signal(signal.SIGKILL)
        server.process.wait(20)
        go_on()
        alone = next(steps)
        assert alone["state"] == "not live: the server does not answer"
        with serving(tmp_path, *words, "--port", server.base.rpartition(":")[2], has_network=False) as other:
            assert other.address == server.address
            go_on()
            assert next(steps)["rows"] == alone["rows"]
            hostile = next(steps)
            assert hostile["answers"] == ["refused", "refused", "pages of other sites may not ask"]
            assert hostile["started"] == 0  # by this server
            for each in steps:
                print(f"{hosts} hosts, {events} events: {json.dumps(each)}")
                assert each["page_bytes"] < 5_000_000
    assert gavotte("guarantee", "clear", "--hosts", inventory).returncode == 0
