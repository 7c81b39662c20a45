"""What a cloud's API was asked and what it answered: recorded from real services, and played to the same code."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests
from requests.adapters import HTTPAdapter

KEPT_HEADERS = ("content-type", "x-subject-token", "location", "openstack-api-version", "x-openstack-nova-api-version")
SECRET = "recorded"


def _key(request: requests.PreparedRequest) -> str:
    address = urlsplit(request.url or "")
    return f"{request.method} {address.port}{address.path}{'?' + address.query if address.query else ''}"


@contextmanager
def recorded(path: Path) -> Iterator[None]:
    """Lets every request go out and writes down what comes back."""
    turns: list[dict[str, Any]] = []
    send = HTTPAdapter.send

    def listen(self: HTTPAdapter, request: requests.PreparedRequest, *more: Any, **options: Any) -> requests.Response:
        reply = send(self, request, *more, **options)
        body = _text(request)
        if body and '"password"' in body:
            body = None  # a login
        headers = {name: value for name, value in reply.headers.items() if name.lower() in KEPT_HEADERS}
        if "X-Subject-Token" in headers:
            headers["X-Subject-Token"] = SECRET
        turns.append(
            {"asked": _key(request), "body": body, "status": reply.status_code, "headers": headers, "reply": reply.text}
        )
        return reply

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HTTPAdapter, "send", listen)
        yield
    path.write_text(json.dumps(turns, indent=0, sort_keys=True) + "\n")


@contextmanager
def played(path: Path) -> Iterator[list[str]]:
    """Answers every request as it was answered once; of one that comes more often than then, the last answer stays.

    Yields:
        what was asked, in order. What was never asked then raises.
    """
    answers: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for turn in json.loads(path.read_text()):
        answers[turn["asked"]].append(turn)
    asked: list[str] = []

    def answer(self: HTTPAdapter, request: requests.PreparedRequest, *more: Any, **options: Any) -> requests.Response:
        key = _key(request)
        asked.append(key)
        assert key in answers, f"never asked when it was recorded: {key}"
        turn = answers[key].pop(0) if len(answers[key]) > 1 else answers[key][0]
        body = _text(request)
        if turn["body"] is not None and body is not None:
            assert _plain(json.loads(body)) == _plain(json.loads(turn["body"])), key
        reply = requests.Response()
        reply.status_code, reply.request, reply.url = turn["status"], request, request.url or ""
        reply._content = turn["reply"].encode()
        reply.headers.update(turn["headers"])
        return reply

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HTTPAdapter, "send", answer)
        yield asked


def _text(request: requests.PreparedRequest) -> str | None:
    if isinstance(request.body, bytes):
        return request.body.decode()
    return request.body if isinstance(request.body, str) else None


def _plain(body: Any) -> Any:
    """A request without what is new in each run: the key of whoever logs in."""
    return json.loads(re.sub(r"ssh-ed25519 [A-Za-z0-9+/=]+", "ssh-ed25519 KEY", json.dumps(body)))
