"""Who may ask, what else is served, and how the server ends."""

from __future__ import annotations

import base64
import signal
import ssl
import subprocess
from pathlib import Path

import pytest
from tests.serve.served import racks, serving
from tests.shell import GAVOTTE, gavotte, one_line_of_error

from gavotte.formats.network import write_network

pytestmark = pytest.mark.slow


def test_the_page_needs_the_token_and_services_do_not(tmp_path: Path) -> None:
    with serving(tmp_path, network=racks()) as served:
        token = served.address.partition("token=")[2]
        assert served.ask("/").status == 401
        assert served.ask("/?token=wrong").status == 401
        page = served.ask(f"/?token={token}")
        assert page.status == 200
        assert "vm4" in page.text
        assert page.headers["X-Frame-Options"] == "DENY"
        cookie = page.headers["Set-Cookie"].partition(";")[0]
        assert served.ask("/api/network", headers={"Cookie": cookie}).json["hosts"][0]["name"] == "vm0"
        assert served.ask("/healthz").text == "OK\n"
        metrics = served.ask("/metrics").text
        assert "gavotte_network_hosts 5\n" in metrics
        assert 'gavotte_group_bytes_per_second{group="rack-0",way="up"} 125000000\n' in metrics
        assert 'gavotte_http_requests_total{path="/",status="401"} 2\n' in metrics
        assert served.ask("/scheduler/prioritize", {}).status == 404  # without a Placement


def test_other_sites_can_ask_nothing(tmp_path: Path) -> None:
    with serving(tmp_path, network=racks()) as served:
        assert served.ask("/healthz", headers={"Origin": "http://evil.example"}).status == 403
        assert served.ask("/v1/generate", {}, headers={"Origin": "http://evil.example"}).status == 403
        # A name of theirs that leads to this machine.
        assert served.ask("/metrics", headers={"Host": "evil.example:8788"}).status == 403
        assert served.ask("/healthz", headers={"Origin": served.base}).status == 200


def test_other_addresses_need_tls_and_a_password(tmp_path: Path) -> None:
    write_network(tmp_path / "n.network.json", racks())
    base = ["serve", "--network", "n.network.json", "--port", "0", "--address", "0.0.0.0"]
    for words, message in (
        ([], "others can reach 0.0.0.0, so it needs TLS and a password"),
        (["--cert", "c.pem"], "TLS needs a certificate and its key; give both"),
        (["--cert", "c.pem", "--key", "k.pem"], "so it needs TLS and a password"),
    ):
        done = gavotte(*base, *words, cwd=tmp_path)
        assert done.returncode == 1
        assert one_line_of_error([], done.stderr)
        assert message in done.stderr
    assert gavotte("hosts", "keys", "-o", tmp_path / "keys", "here=127.0.0.1").returncode == 0
    own = tmp_path / "keys" / "hosts" / "here"
    words = ["--cert", str(own / "host.pem"), "--key", str(own / "host.key"), "--password-file", "password"]
    (tmp_path / "password").write_text("short\n")
    done = gavotte(*base, *words, cwd=tmp_path)
    assert "password: has no password of 12 characters or more on one line" in done.stderr
    (tmp_path / "password").write_text("long enough to serve\n")
    with serving(tmp_path, "--address", "127.0.0.1", *words) as served:
        assert served.address.startswith("https://127.0.0.1:")
        context = ssl.create_default_context(cafile=str(own / "ca.pem"))
        basic = base64.b64encode(b"gavotte:long enough to serve").decode()
        for path in ("/", "/healthz"):
            assert served.ask(path, context=context).status == 401
            assert served.ask(path, context=context, headers={"Authorization": "Basic ?"}).status == 401
            assert served.ask(path, context=context, headers={"Authorization": f"Basic {basic}"}).status == 200


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_and_frees_the_port(tmp_path: Path, number: signal.Signals) -> None:
    with serving(tmp_path, network=racks()) as served:
        port = served.base.rpartition(":")[2]
        line: list[str | Path] = [GAVOTTE, "serve", "--network", "n.network.json", "--port", port]
        second = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, timeout=30, check=False)
        assert second.returncode == 1
        assert f"cannot listen at 127.0.0.1:{port}: " in second.stderr
        served.process.send_signal(number)
        assert served.process.wait(10) == 128 + number
    line = [GAVOTTE, "serve", "--network", "n.network.json", "--port", port, "--json"]
    with subprocess.Popen(line, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as again:
        assert again.stdout is not None
        assert again.stdout.readline().startswith('{"address": "http://127.0.0.1:')
        again.terminate()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--network", "none.json"), "none.json: no such file"),
        (("--network", "n.network.json", "--address", "here"), "`here` is not an address; use one such as 127.0.0.1"),
        (("--network", "n.network.json", "--app", "a.app.toml"), "applications are only used with a Placement"),
        (("--network", "n.network.json", "--placement", "p.json"), "p.json: no such file"),
    ],
)
def test_bad_options_get_one_line(tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    write_network(tmp_path / "n.network.json", racks())
    done = gavotte("serve", *words, cwd=tmp_path)
    assert done.returncode == 1
    assert one_line_of_error([], done.stderr)
    assert message in done.stderr
