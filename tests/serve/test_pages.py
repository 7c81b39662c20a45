"""The pages over a store, their JSON, its description, and the news that the store has changed."""

from __future__ import annotations

import http.client
import json
import re
import time
from collections.abc import Generator, Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.serve.served import Served, racks, serving
from tests.serve.stored import COMMAND, RUNS, event, filled, run
from tests.shell import gavotte, one_line_of_error

from gavotte.store import open_store

pytestmark = pytest.mark.slow

PAGES = {
    "/": "cloud",
    "/networks/cloud": "sends 2.5 times slower",
    "/networks/cloud/pair?source=vm000&target=vm005": "Rate over time",
    "/jobs": "4.45 s",
    "/jobs/0a1b": "26 % less than predicted",
    "/events": "moved: 11 of 11 pairs of vm000",
    "/transfers": "1.80 GB of 6.00 GB",
    "/measurements": "goodput_bps",
    "/measurements/night": "in the median of 40",
}
"""Each page, with words that it shows."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stored")
    filled(folder / "s.sqlite3")
    return folder / "s.sqlite3"


@pytest.fixture(scope="module")
def served(store: Path) -> Iterator[Served]:
    with serving(store.parent, "--store", "s.sqlite3", has_network=False) as server:
        yield server


def own(served: Served) -> dict[str, str]:
    """Return the header of a browser that has opened the printed address."""
    return {"Cookie": f"gavotte-token={served.address.partition('token=')[2]}"}


@pytest.mark.each_case
@pytest.mark.parametrize(("path", "words"), PAGES.items())
def test_each_page_shows_what_is_stored(served: Served, path: str, words: str) -> None:
    page = served.ask(path, headers=own(served))
    assert page.status == 200
    assert words in page.text
    assert f'<a href="{path}" aria-current="page">' in page.text or path.count("/") > 1
    assert "script-src 'self'" in page.headers["Content-Security-Policy"]
    assert served.ask(path).status == 401  # without the token


def test_a_job_shows_who_sends_how_much(served: Served) -> None:
    page = served.ask("/jobs/0a1b", headers=own(served)).text
    assert "160 MB between 16 ranks" in page
    assert 'aria-label="Bytes between ranks"' in page


def test_markup_in_names_is_text(served: Served) -> None:
    pages = "".join(served.ask(path, headers=own(served)).text for path in ("/jobs", "/jobs/0a1b", "/transfers"))
    assert "&lt;b&gt;melt&lt;/b&gt; &amp; exit" in pages
    assert "&lt;i&gt;sort&lt;/i&gt;" in pages
    assert "<b>melt" not in pages
    assert "<i>sort" not in pages


def test_pages_load_only_what_is_served_here(served: Served) -> None:
    seen = set()
    for path in PAGES:
        page = served.ask(path, headers=own(served)).text
        assert not re.search(r"<script>|\son\w+=|https?://", page.partition("<footer>")[0])
        seen |= set(re.findall(r'(?:src|href)="(/static/[^"]+)"', page))
    assert len(seen) == 5
    for path in seen:
        assert served.ask(path, headers=own(served)).status == 200
    assert served.ask("/static/../serve/site.py", headers=own(served)).status == 404


def test_what_is_not_stored_is_said(served: Served) -> None:
    for path, reason in (
        ("/networks/none", "no series `none`; use one of: cloud"),
        ("/networks/cloud?at=noon", "`noon` is not a Unix time"),
        ("/networks/cloud/pair?source=vm000&target=nobody", "no host `nobody`"),
        ("/networks/cloud/pair?source=vm000&target=vm000", "named twice"),
        ("/jobs/none", "no run of job `none` is stored"),
        ("/measurements/launch", "no values of kind `launch` are stored"),
    ):
        page = served.ask(path, headers=own(served))
        assert page.status == 404
        assert reason in page.text.replace("&#39;", "'")
        answer = served.ask(f"/api{path}", headers=own(served))
        assert answer.status in (404, 200 if "at=" in path else 404)
    assert served.ask("/jobs", {}, headers=own(served) | {"Origin": served.base}).status == 405


@given(st.sampled_from(sorted(PAGES)), st.text(max_size=40), st.text(max_size=40))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_odd_names_and_times_are_not_here(served: Served, path: str, name: str, value: str) -> None:
    odd = quote(name, safe="", errors="replace")
    query = urlencode({"at": value, "source": name, "target": value}, errors="replace")
    asked = f"{path.partition('?')[0].replace('cloud', odd).replace('0a1b', odd).replace('night', odd)}?{query}"
    assert served.ask(asked, headers=own(served)).status in (200, 404)
    assert served.ask(f"/networks/cloud?{query}", headers=own(served)).status in (200, 404)


@pytest.mark.parametrize("time_s", ["inf", "nan", "-1", "1e400", "1e12", ""])
def test_a_time_that_cannot_be_is_not_here(served: Served, time_s: str) -> None:
    page = served.ask(f"/networks/cloud?at={time_s}", headers=own(served))
    assert page.status == 404
    assert "is not a Unix time" in page.text


def test_a_network_is_shown_as_it_was(served: Served) -> None:
    first = served.ask("/api/networks/cloud", headers=own(served)).json["measurements"][0]
    page = served.ask(f"/networks/cloud?at={first['time_s']}", headers=own(served)).text
    assert "As it was at" in page
    assert "2.5 times slower" not in page  # the host became slow later


def test_the_description_has_each_answer(served: Served) -> None:
    document = served.ask("/api/openapi.json", headers=own(served)).json
    assert document["openapi"] == "3.1.0"
    schemas = document["components"]["schemas"]
    for path, methods in document["paths"].items():
        if path in ("/api/runs", "/api/runs/{run}/cancel", "/api/commands"):
            continue  # see test_actions.py
        places = {"name": "cloud", "job": "0a1b", "kind": "night", "source": "vm000", "target": "vm001"}
        query = "&".join(
            f"{each['name']}={places[each['name']]}" for each in methods["get"]["parameters"] if each["in"] == "query"
        )
        answer = served.ask(f"{path.format(**places)}?{query}", headers=own(served))
        assert answer.status == 200, path
        schema = methods["get"]["responses"]["200"]["content"]["application/json"]["schema"]
        several = schema.get("type") == "array"
        named = (schema["items"] if several else schema)["$ref"].rpartition("/")[2]
        row = answer.json[0] if several else answer.json
        assert set(schemas[named]["properties"]) == set(row), path
    assert served.ask("/api/jobs", headers=own(served)).json[0]["command"] == COMMAND


def changes(served: Served) -> Generator[str]:
    """Yield the marks that an open page is sent."""
    address = served.base.removeprefix("http://")
    connection = http.client.HTTPConnection(address, timeout=20)
    connection.request("GET", "/api/changes", headers=own(served))
    answer = connection.getresponse()
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "text/event-stream"
    try:
        while True:
            line = answer.readline().decode().strip()
            if line.startswith("data: "):
                yield line
    finally:
        connection.close()


def test_open_pages_hear_of_changes(tmp_path: Path) -> None:
    store = tmp_path / "s.sqlite3"
    filled(store, snapshots=2)
    with serving(tmp_path, "--store", "s.sqlite3", has_network=False) as server:
        marks = changes(server)
        before = next(marks)
        with open_store(store) as opened:
            opened.add_records([run(RUNS, time.time(), ["vm000"])])
        after_run = next(marks)
        with open_store(store) as opened:
            opened.add_records([event(0, time.time() + 1, ["vm001"])])
        after_event = next(marks)
        with open_store(store) as opened:
            queue = opened.queue()
            under_way = queue.all()[0]
            queue.save(replace(under_way, moved=(400_000_000,) * len(under_way.flows)))
        assert len({before, after_run, after_event, next(marks)}) == 4
        marks.close()


def test_a_store_and_a_network_are_served_together(tmp_path: Path) -> None:
    filled(tmp_path / "s.sqlite3", snapshots=2)
    with serving(tmp_path, "--store", "s.sqlite3", network=racks()) as server:
        assert "vm4" in server.ask("/network", headers=own(server)).text
        assert '<a href="/network">Served network</a>' in server.ask("/", headers=own(server)).text
        assert json.loads(server.ask("/api/network", headers=own(server)).text)["hosts"][0]["name"] == "vm0"


def test_a_placement_is_shown_on_its_network(tmp_path: Path) -> None:
    from tests import builders

    from gavotte.formats.app import write_app

    write_app(tmp_path / "a.app.toml", builders.app("sort", ("map", "reduce", 10**9)))
    with serving(tmp_path, network=racks()):
        pass
    placed = gavotte("place", "n.network.json", "a.app.toml", "-o", "p.placement.json", cwd=tmp_path)
    assert placed.returncode == 0, placed.stderr
    with serving(tmp_path, "--placement", "p.placement.json", "--app", "a.app.toml") as server:
        page = server.ask("/", headers=own(server)).text
    assert "Completion time" in page
    assert "simulated" in page


def test_the_address_stays_the_same_with_a_token_file(served: Served, store: Path, tmp_path: Path) -> None:
    words = ["--store", str(store), "--token-file", "token"]
    tokens = []
    for _ in range(2):
        with serving(tmp_path, *words, has_network=False) as server:
            tokens.append(server.address.partition("token=")[2])
    assert tokens[0] == tokens[1] == (tmp_path / "token").read_text().strip()
    assert (tmp_path / "token").stat().st_mode & 0o777 == 0o600
    for mode, text, message in (
        (0o640, tokens[0], "token: others can use it; chmod 600 token"),
        (0o600, "", "no token"),
    ):
        (tmp_path / "token").write_text(text)
        (tmp_path / "token").chmod(mode)
        done = gavotte("serve", "--port", "0", *words, cwd=tmp_path)
        assert done.returncode == 1
        assert message in done.stderr


def test_what_cannot_be_served_is_refused(tmp_path: Path) -> None:
    for words, message in (
        (["--store", "none.sqlite3"], "none.sqlite3"),
        (["--store", "none.sqlite3", "--label-nodes"], "schedulers and labels follow a Network; name the Network"),
    ):
        done = gavotte("serve", "--port", "0", *words, cwd=tmp_path)
        assert done.returncode == 1
        assert one_line_of_error([], done.stderr)
        assert message in done.stderr
