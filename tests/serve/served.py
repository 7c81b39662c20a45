"""A server of `gavotte serve`, and requests to it."""

from __future__ import annotations

import json
import signal
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import builders
from tests.shell import GAVOTTE

from gavotte.formats.app import App, write_app
from gavotte.formats.network import Network, write_network
from gavotte.formats.placement import Placement, write_placement

RACKS: list[dict[str, Any]] = [
    {"name": "pod-0", "members": ["vm0", "vm1", "vm2", "vm3"]},
    {"name": "rack-0", "members": ["vm0", "vm1"], "up_bps": 1e9, "parent": "pod-0"},
    {"name": "rack-1", "members": ["vm2", "vm3"], "parent": "pod-0"},
]


def racks() -> Network:
    """Return five hosts, four of them in two racks of one pod; pairs within a rack are ten times as fast."""
    names = [f"vm{number}" for number in range(5)]
    rates = [[0.0 if m == n else 1e9 if m // 2 == n // 2 else 1e8 for n in range(5)] for m in range(5)]
    return builders.network(names, rates, groups=RACKS)


@dataclass
class Answer:
    """An HTTP answer."""

    status: int
    text: str
    headers: Mapping[str, str]

    @property
    def json(self) -> Any:
        return json.loads(self.text)


@dataclass
class Served:
    """A running server."""

    address: str
    process: subprocess.Popen[str]
    complaints: str = ""
    """What it has printed on stderr, once it has ended."""

    @property
    def base(self) -> str:
        return self.address.partition("?")[0].rstrip("/")

    def ask(
        self,
        path: str,
        body: object = None,
        *,
        headers: Mapping[str, str] | None = None,
        context: ssl.SSLContext | None = None,
    ) -> Answer:
        """Return the answer to a request: POST if there is a body; a text or bytes are sent as they are."""
        data = body if body is None or isinstance(body, bytes) else _encoded(body)
        asked = urllib.request.Request(self.base + path, data, dict(headers or {}))
        try:
            with urllib.request.urlopen(asked, timeout=20, context=context) as answer:
                return Answer(answer.status, answer.read().decode(), dict(answer.headers))
        except urllib.error.HTTPError as error:
            return Answer(error.code, error.read().decode(), dict(error.headers))


def _encoded(body: object) -> bytes:
    return (body if isinstance(body, str) else json.dumps(body)).encode()


@contextmanager
def serving(
    folder: Path, *words: str | Path, network: Network | None = None, has_network: bool = True
) -> Iterator[Served]:
    """Run `gavotte serve` in a folder at any free port, with a Network unless it is to have none."""
    if network is not None:
        write_network(folder / "n.network.json", network)
    line: list[str | Path] = [GAVOTTE, "serve", "--port", "0", *map(str, words)]
    if has_network:
        line += ["--network", "n.network.json"]
    process = subprocess.Popen(line, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert address, process.communicate()[1]
        served = Served(address, process)
        yield served
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        errors = process.communicate(timeout=20)[1]
    served.complaints = errors


@contextmanager
def serving_placement(folder: Path, network: Network, app: App, placement: Placement) -> Iterator[Served]:
    """Run `gavotte serve` for Kubernetes' scheduler, with an App and its Placement."""
    write_app(folder / "j.app.toml", app)
    write_placement(folder / "j.placement.json", placement)
    with serving(folder, "--placement", "j.placement.json", "--app", "j.app.toml", network=network) as served:
        yield served
