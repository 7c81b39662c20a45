"""Requests to a cloud's API with their answers: recorded from real services, and replayed to the same code."""

from __future__ import annotations

import io
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests
from requests.adapters import HTTPAdapter
from urllib3 import BaseHTTPResponse, HTTPResponse, PoolManager

KEPT_HEADERS = ("content-type", "x-subject-token", "location", "openstack-api-version", "x-openstack-nova-api-version")
SECRET = "recorded"


Turn = dict[str, Any]
Hear = Callable[[str, str, str | None, Callable[[], tuple[int, Mapping[str, str], str]]], tuple[int, Any, str]]
"""A function that gets a method, an address, a body and the real sender; it returns status, headers and text of an
answer.
"""


@contextmanager
def _wires(hear: Hear) -> Iterator[None]:
    """Make a function answer every request of `requests` (openstacksdk) and of `urllib3` (Kubernetes' client)."""
    send, ask = HTTPAdapter.send, PoolManager.request

    def by_requests(
        self: HTTPAdapter, request: requests.PreparedRequest, *more: Any, **options: Any
    ) -> requests.Response:
        def out() -> tuple[int, Mapping[str, str], str]:
            came = send(self, request, *more, **options)
            return came.status_code, came.headers, came.text

        reply = requests.Response()
        status, headers, text = hear(request.method or "", request.url or "", _text(request.body), out)
        reply.status_code, reply.request, reply.url = status, request, request.url or ""
        reply._content = text.encode()
        reply.headers.update(headers)
        return reply

    def by_urllib3(self: PoolManager, method: str, url: str, body: Any = None, **options: Any) -> BaseHTTPResponse:
        def out() -> tuple[int, Mapping[str, str], str]:
            came = ask(self, method, url, body, **options)
            return came.status, came.headers, came.data.decode()

        status, headers, text = hear(method, url, _text(body), out)
        return HTTPResponse(
            io.BytesIO(text.encode()), headers, status, preload_content=bool(options.get("preload_content", True))
        )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HTTPAdapter, "send", by_requests)
        patch.setattr(PoolManager, "request", by_urllib3)
        yield


@contextmanager
def recorded(path: Path) -> Iterator[None]:
    """Let every request go out and write down the answer."""
    turns: list[Turn] = []
    last: dict[str, Turn] = {}

    def listen(method: str, url: str, body: str | None, out: Callable[[], Any]) -> tuple[int, Any, str]:
        status, headers, text = out()
        kept = {name: value for name, value in headers.items() if name.lower() in KEPT_HEADERS}
        if "X-Subject-Token" in kept:
            kept["X-Subject-Token"] = SECRET
        if body and '"password"' in body:
            body = None  # a login
        key = _key(method, url)
        turn = {
            "asked": key,
            "body": body and _masked(body),
            "status": status,
            "headers": kept,
            "reply": _short(_masked(text)),
        }
        # A request that is repeated until its answer changes is written once.
        if last.get(key) is not None and last[key] | {"times": 1} == turn | {"times": 1}:
            last[key]["times"] = last[key].get("times", 1) + 1
        else:
            turns.append(turn)
            last[key] = turn
        return status, headers, text

    with _wires(listen):
        yield
    path.write_text(json.dumps(turns, indent=0, sort_keys=True) + "\n")


@contextmanager
def played(path: Path) -> Iterator[list[str]]:
    """Answer every request as it was answered in the recording; if it comes more often, the last answer is repeated.

    Yields:
        the requests, in order. A request that is not in the recording raises.
    """
    answers: dict[str, list[Turn]] = defaultdict(list)
    for turn in json.loads(path.read_text()):
        answers[turn["asked"]] += [turn] * turn.get("times", 1)
    asked: list[str] = []

    def answer(method: str, url: str, body: str | None, out: Callable[[], Any]) -> tuple[int, Any, str]:
        key = _key(method, url)
        asked.append(key)
        assert key in answers, f"never asked when it was recorded: {key}"
        turn = answers[key].pop(0) if len(answers[key]) > 1 else answers[key][0]
        if turn["body"] is not None and body is not None:
            assert _plain(json.loads(_masked(body))) == _plain(json.loads(turn["body"])), key
        return turn["status"], turn["headers"], turn["reply"]

    with _wires(answer):
        yield asked


def _key(method: str, url: str) -> str:
    address = urlsplit(url)
    return f"{method} {address.port}{address.path}{'?' + address.query if address.query else ''}"


def _text(body: Any) -> str | None:
    if isinstance(body, bytes):
        return body.decode()
    return body if isinstance(body, str) else None


def _masked(text: str) -> str:
    """Without the keys in a Secret."""
    return re.sub(r"[A-Za-z0-9+/]{200,}=*", "S0VZ", text)


def _short(text: str) -> str:
    """Without the list of who changed which field when, most of Kubernetes' answers, and without values that change
    each time.
    """
    if '"managedFields"' not in text and '"resourceVersion"' not in text:
        return text

    def less(value: Any) -> Any:
        if isinstance(value, list):
            return [less(each) for each in value]
        if isinstance(value, dict):
            return {
                key: less(each)
                for key, each in value.items()
                if key not in ("managedFields", "resourceVersion", "images")
            }
        return value

    return json.dumps(less(json.loads(text)))


def _plain(body: Any) -> Any:
    """A request without the part that is new in each run: the key of the login."""
    return json.loads(re.sub(r"ssh-ed25519 [A-Za-z0-9+/=]+", "ssh-ed25519 KEY", json.dumps(body)))
