"""Commands that pages start: who may start which, what they do in a real network, and that they end with the server."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.serve.served import Answer, Served, racks, serving
from tests.serve.stored import filled
from tests.shell import gavotte

from gavotte import lab
from gavotte.formats.record import LAUNCH, WALL_S, Record
from gavotte.store import open_store

pytestmark = pytest.mark.slow

WAIT_S = 60.0


def own(served: Served, **more: str) -> dict[str, str]:
    """Return the headers of a browser on a page of this server."""
    token = served.address.partition("token=")[2]
    return {"Cookie": f"gavotte-token={token}", "Origin": served.base, **more}


def start(served: Served, command: str, subject: str = "") -> Any:
    answer = served.ask("/api/runs", {"command": command, "subject": subject}, headers=own(served))
    assert answer.status == 200, answer.text
    return answer.json


def runs(served: Served) -> list[Any]:
    all_runs: list[Any] = served.ask("/api/runs", headers=own(served)).json
    return all_runs


def ended(served: Served, number: int) -> Any:
    """Wait for a command's end, and return it."""
    end_s = time.monotonic() + WAIT_S
    while time.monotonic() < end_s:
        (run,) = [each for each in runs(served) if each["id"] == number]
        if run["status"] is not None:
            return run
        time.sleep(0.1)
    raise AssertionError(run)


@contextmanager
def mute_host(folder: Path) -> Iterator[Path]:
    """Yield an inventory whose host accepts connections and never answers, so that commands wait."""
    # The path of a Unix socket has at most 107 characters.
    with tempfile.TemporaryDirectory(prefix="mute-") as short, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{short}/agent.sock")
        listener.listen(100)
        file = folder / "mute.hosts.toml"
        file.write_text(
            'format = "gavotte/hosts/1"\n[[host]]\nname = "mute"\naddress = "127.0.0.1"\n'
            f'agent = "unix:{short}/agent.sock"\n'
        )
        yield file


@pytest.fixture(scope="module")
def waiting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server whose commands wait for a host."""
    folder = tmp_path_factory.mktemp("acting")
    filled(folder / "s.sqlite3", snapshots=2)
    with (
        mute_host(folder) as hosts,
        serving(folder, "--store", "s.sqlite3", "--hosts", hosts, network=racks()) as server,
    ):
        yield server


@pytest.mark.parametrize("path", ["/commands", "/api/runs", "/commands/1/cancel", "/api/runs/1/cancel"])
def test_only_pages_of_this_server_change_anything(waiting: Served, path: str) -> None:
    wanted = {"command": "check"}
    cookie = {"Cookie": own(waiting)["Cookie"]}
    assert waiting.ask(path, wanted, headers=cookie).status == 403  # no origin
    for origin in ("http://evil.example", "null", "http://127.0.0.1:1", waiting.base + ".evil.example"):
        assert waiting.ask(path, wanted, headers=cookie | {"Origin": origin}).status == 403
    assert waiting.ask(path, wanted, headers={"Origin": waiting.base}).status == 401  # no token
    assert waiting.ask(f"{path}?token=wrong", wanted, headers={"Origin": waiting.base}).status == 401
    assert not runs(waiting)


@given(st.text(max_size=20), st.text(max_size=200))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_odd_commands_are_refused(waiting: Served, command: str, subject: str) -> None:
    for body in ({"command": command, "subject": subject}, {"command": "cancel", "subject": f"x{subject}"}):
        answer = waiting.ask("/api/runs", body, headers=own(waiting))
        assert answer.status == 409
        assert "does not offer" in answer.json["error"]
    form = urlencode({"command": command, "subject": subject}, errors="replace")
    assert waiting.ask("/commands", form, headers=own(waiting)).status == 409


@pytest.mark.parametrize(
    "body", ["", "[]", "[" * 100_000, '{"command": 1}', '{"command": "check", "words": ["rm"]}', b"\xff"]
)
def test_bodies_that_are_no_command_are_refused(waiting: Served, body: str | bytes) -> None:
    answer = waiting.ask("/api/runs", body, headers=own(waiting))
    assert answer.status == 409
    assert 'this is no {"command"' in answer.json["error"]


@pytest.mark.parametrize("number", ["0", "99999", "-1", "x", "9" * 400])
def test_commands_that_were_not_started_cannot_be_cancelled(waiting: Served, number: str) -> None:
    answer = waiting.ask(f"/api/runs/{number}/cancel", "", headers=own(waiting))
    assert answer.status == 409
    assert "was started here" in answer.json["error"]


def test_a_page_starts_and_cancels(waiting: Served) -> None:
    page = waiting.ask("/commands", headers=own(waiting)).text
    assert "gavotte hosts check --hosts" in page
    assert "Nothing has been started" in page
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    # The answer leads back to the page, which the client has followed.
    shown = waiting.ask("/commands", "command=slow&subject=", headers=own(waiting, **form))
    assert shown.status == 200
    assert "Find slow hosts: running" in shown.text
    (run,) = runs(waiting)
    assert run["status"] is None
    shown = waiting.ask(f"/commands/{run['id']}/cancel", "", headers=own(waiting, **form))
    assert "Find slow hosts: " in shown.text
    over = ended(waiting, run["id"])
    assert over["cancelled"]
    assert over["status"] == 128 + signal.SIGTERM
    assert "Find slow hosts: cancelled" in waiting.ask("/commands", headers=own(waiting)).text


def test_few_commands_run_at_once(waiting: Served) -> None:
    started = [start(waiting, "check") for _ in range(4)]
    refused = waiting.ask("/api/runs", {"command": "check"}, headers=own(waiting))
    assert refused.status == 409
    assert refused.json["error"] == "4 commands run already; wait for one, or cancel it"
    for run in started:
        waiting.ask(f"/api/runs/{run['id']}/cancel", "", headers=own(waiting))
    for run in started:
        ended(waiting, run["id"])


def test_pages_offer_what_they_are_about(waiting: Served) -> None:
    assert "--series=cloud" in waiting.ask("/networks/cloud", headers=own(waiting)).text
    assert "gavotte transfers cancel" in waiting.ask("/transfers", headers=own(waiting)).text
    assert "gavotte watch n.network.json" in waiting.ask("/events", headers=own(waiting)).text
    described = waiting.ask("/api/openapi.json", headers=own(waiting)).json["paths"]
    assert set(described["/api/runs"]) == {"get", "post"}
    assert [each["command"] for each in waiting.ask("/api/commands", headers=own(waiting)).json] == [
        "check",
        "slow",
        "watch",
        "carry",
        "clear",
    ]


def test_a_job_runs_again_in_its_folder(tmp_path: Path) -> None:
    filled(tmp_path / "s.sqlite3", snapshots=2)
    folder, words = tmp_path / "a job's", ["mpirun", "-n", "1", "touch", "<b>done & gone</b>"]
    folder.mkdir()
    labels = {"job": "77aa", "command": "touch", "ranks": 1, "typed": shlex.join(words), "folder": str(folder)}
    with open_store(tmp_path / "s.sqlite3") as store:
        store.add_records([Record(kind=LAUNCH, metric=WALL_S, value=1.0, time_s=time.time(), labels=labels)])
    with serving(tmp_path, "--store", "s.sqlite3", has_network=False) as server:
        page = server.ask("/jobs/77aa", headers=own(server)).text
        assert "-- mpirun -n 1 touch" in page
        assert "<b>done" not in page
        # Older runs have no command line.
        assert "Run it again" not in server.ask("/jobs/0a1b", headers=own(server)).text
        assert server.ask("/api/runs", {"command": "launch", "subject": "0a1b"}, headers=own(server)).status == 409
        run = start(server, "launch", "77aa")
        assert run["line"].startswith("gavotte launch --store ")
        ended(server, run["id"])  # without an allocation or hosts it cannot run, and says so
        assert "error: " in runs(server)[0]["output"]


def alive(marker: str) -> list[int]:
    """Return the processes that have a marker in their command lines."""
    pids = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if marker.encode() in words:
                pids.append(int(folder.name))
    return pids


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_commands_end_with_the_server(tmp_path: Path, number: int) -> None:
    filled(tmp_path / "s.sqlite3", snapshots=2)
    with (
        mute_host(tmp_path) as hosts,
        serving(tmp_path, "--store", "s.sqlite3", "--hosts", hosts, has_network=False) as s,
    ):
        start(s, "check")
        while len(alive(str(hosts))) < 2:  # the server, and the command
            time.sleep(0.05)
        s.process.send_signal(number)
        s.process.wait(WAIT_S)
        end_s = time.monotonic() + WAIT_S
        while alive(str(hosts)) and time.monotonic() < end_s:
            time.sleep(0.05)
        assert not alive(str(hosts))


def test_a_server_may_be_told_to_start_nothing(tmp_path: Path) -> None:
    filled(tmp_path / "s.sqlite3", snapshots=2)
    with (
        mute_host(tmp_path) as hosts,
        serving(tmp_path, "--store", "s.sqlite3", "--hosts", hosts, "--read-only", has_network=False) as server,
    ):
        assert server.ask("/commands", headers=own(server)).status == 404
        assert server.ask("/api/runs", {"command": "check"}, headers=own(server)).status in (404, 405)
        assert "gavotte measure" not in server.ask("/networks/cloud", headers=own(server)).text
    done = gavotte("serve", "--store", "s.sqlite3", "--guarantee", "g.guarantee.toml", cwd=tmp_path)
    assert done.stderr == "error: guarantees are applied to hosts; name the hosts\n"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--hosts", "none.hosts.toml"), "none.hosts.toml"),
        (("--hosts", "192.0.2.1,192.0.2.2", "--guarantee", "none.guarantee.toml"), "none.guarantee.toml: no such file"),
    ],
)
def test_what_pages_could_not_use_is_refused_at_once(tmp_path: Path, words: tuple[str, ...], reason: str) -> None:
    filled(tmp_path / "s.sqlite3", snapshots=2)
    done = gavotte("serve", "--store", "s.sqlite3", "--port", "0", *words, cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert reason in done.stderr


@pytest.mark.parametrize("url", ["{}/s.sqlite3", "sqlite:///{}/s.sqlite3"])
def test_a_job_keeps_the_servers_store_and_hosts_in_another_folder(tmp_path: Path, url: str) -> None:
    filled(tmp_path / "s.sqlite3", snapshots=2)
    labels = {"job": "77aa", "command": "true", "ranks": 1, "typed": "mpirun true", "folder": "/"}
    with open_store(tmp_path / "s.sqlite3") as store:
        store.add_records([Record(kind=LAUNCH, metric=WALL_S, value=1.0, time_s=time.time(), labels=labels)])
    with mute_host(tmp_path) as hosts:
        words = ["--store", url.format("."), "--hosts", hosts.name]
        with serving(tmp_path, *words, has_network=False) as server:
            page = server.ask("/jobs/77aa", headers=own(server)).text
    line = f"gavotte launch --hosts {hosts} --store {tmp_path}/s.sqlite3 -- mpirun true"
    assert line in page


def page_with(served: Served, path: str, words: str) -> str:
    """Return a page once it has some words. What agents say comes a moment later."""
    end_s = time.monotonic() + WAIT_S
    answer = Answer(0, "", {})
    while time.monotonic() < end_s:
        served.ask("/metrics")
        answer = served.ask(path, headers=own(served))
        if words in answer.text:
            return answer.text
        time.sleep(0.3)
    raise AssertionError(answer.text)


@pytest.mark.lab
def test_a_page_measures_checks_and_guarantees(small_cloud: lab.Session, tmp_path: Path) -> None:
    with open_store(tmp_path / "s.sqlite3"):
        pass
    (tmp_path / "g.guarantee.toml").write_text(
        'format = "gavotte/guarantee/1"\n'
        + "".join(f'[[guarantee]]\nhost = "{name}"\negress = "20mbit"\ningress = "20mbit"\n' for name in ("a", "c"))
    )
    words = ["--store", "s.sqlite3", "--hosts", str(small_cloud.hosts_file), "--guarantee", "g.guarantee.toml"]
    with serving(tmp_path, *words, has_network=False) as server:
        run = start(server, "measure", "--json")
        assert ended(server, run["id"])["status"] == 0, runs(server)[0]["output"]
        (network,) = server.ask("/api/networks", headers=own(server)).json
        assert network["name"] == "--json"  # never read as an option
        assert network["hosts"] == 3
        assert ended(server, start(server, "check")["id"])["status"] == 0
        try:
            run = start(server, "apply")
            assert ended(server, run["id"])["status"] == 0, runs(server)
            page = page_with(server, "/guarantees", "20.0 Mbit/s")
            assert "All guarantees were met" in page
            assert '<a href="/guarantees"' in page
            state = server.ask("/api/guarantees", headers=own(server)).json
            assert [each["egress_bps"] for each in state["hosts"]] == [2e7, 0, 2e7]
            assert 'gavotte_guarantee_host_up{host="a"} 1' in server.ask("/metrics").text
        finally:
            assert ended(server, start(server, "clear")["id"])["status"] == 0
        page_with(server, "/guarantees", "No host enforces a guarantee now")
