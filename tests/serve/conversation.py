"""What a real scheduler asked `gavotte serve`, with the answers: recorded on the way, and asked again by tests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from tests import builders
from tests.api_server import Quiet, listening
from tests.serve.served import Served, serving_placement

PLANNED = {"a": "node2", "b": "node2", "c": "node1", "d": "node2"}
"""Where the recorded job's tasks were to be."""

RECORDED = Path(__file__).parent / "recorded"
CHANGING = ("managedFields", "resourceVersion", "uid", "creationTimestamp", "generation")
"""Fields of Kubernetes' objects that differ each time."""


@contextmanager
def placing(folder: Path) -> Iterator[Served]:
    """Run the service with the recorded job's Placement on two nodes."""
    pairs = [(a, b, 1_000_000) for a in PLANNED for b in PLANNED if a != b]
    network = builders.network(["node1", "node2"], 1e9)
    with serving_placement(folder, network, builders.app("j", *pairs), builders.placement(PLANNED, "j")) as served:
        yield served


@contextmanager
def recording(served: Served, path: Path) -> Iterator[str]:
    """Pass requests on to the service, and write them down in the end; give the address to ask instead.

    Args:
        served: the service.
        path: file of the recording.
    """
    turns: list[dict[str, Any]] = []

    class Between(Quiet, BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            answer = served.ask(self.path, body)
            turn = {"path": self.path, "body": json.loads(body), "status": answer.status, "answer": answer.json}
            turns.append(_short(turn))
            self.send_json(answer.text.encode(), answer.status)

    with listening(Between) as port:
        yield f"http://127.0.0.1:{port}"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(turns, indent=1, sort_keys=True) + "\n")


def ask_again(served: Served, path: Path) -> list[str]:
    """Ask everything that was recorded, and compare the answers; return the paths of the requests."""
    turns = json.loads(path.read_text())
    for turn in turns:
        answer = served.ask(turn["path"], turn["body"])
        assert (answer.status, answer.json) == (turn["status"], turn["answer"]), turn["path"]
    return [turn["path"] for turn in turns]


def _short(value: Any) -> Any:
    """Return a document without the fields that differ each time."""
    if isinstance(value, list):
        return [_short(each) for each in value]
    if isinstance(value, dict):
        return {key: _short(each) for key, each in value.items() if key not in CHANGING}
    return value
