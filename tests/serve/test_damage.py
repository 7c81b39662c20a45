"""Damaged requests: an answer of one line, no trace of the error, and the server goes on."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import builders
from tests.examples import examples
from tests.serve.served import Served, racks, serving

from gavotte.formats.placement import write_placement

pytestmark = pytest.mark.slow

PATHS = (
    "/v1/generate",
    "/v1/lookup",
    "/scheduler/filter",
    "/scheduler/prioritize",
    "/scheduler/seconds",
    "/scheduler/completion",
)
KEYS = ["provider", "engine", "nodes", "instances", "params", "name", "pod", "metadata", "labels", "nodenames", "items"]
KEYS += ["pods", "peers", "node"]
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=12,
)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    write_placement(folder / "j.placement.json", builders.placement({"a": "vm0"}, "job"))
    with serving(folder, "--placement", "j.placement.json", network=racks()) as server:
        yield server
        assert server.ask("/healthz").status == 200
    assert "Traceback" not in server.complaints, server.complaints
    assert server.complaints.count("\n") <= 2, server.complaints


@examples(60)
@given(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=4) | VALUES, st.sampled_from(PATHS))
def test_any_document_gets_an_answer(served: Served, document: Any, path: str) -> None:
    answer = served.ask(path, json.dumps(document))
    assert answer.status in (200, 202, 400, 404), answer.text
    assert answer.status != 400 or answer.text.count("\n") == 1


@pytest.mark.parametrize(
    "content", [b"\xff\xfe", b"{", b"[" * 100_000, b'{"nodes": [{"instances": {"\\ud800": "vm0"}}]}']
)
@pytest.mark.parametrize("path", PATHS)
def test_what_is_no_json_is_refused_in_one_line(served: Served, content: bytes, path: str) -> None:
    answer = served.ask(path, content)
    assert answer.status == 400, answer.text
    assert answer.text.startswith("request: ")
    assert answer.text.count("\n") == 1


def test_a_body_that_is_too_large_is_refused(served: Served) -> None:
    assert served.ask("/v1/generate", b" " * (65 << 20)).status == 413


@pytest.mark.parametrize(
    "sent", [b"\x16\x03\x01\x02\x00", b"GET\r\n\r\n", b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n"]
)
def test_what_is_no_http_ends_its_connection_alone(served: Served, sent: bytes) -> None:
    host, port = served.base.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), 10) as raw:
        raw.sendall(sent)
        raw.shutdown(socket.SHUT_WR)
        while raw.recv(4096):
            pass
    assert served.ask("/healthz").status == 200
