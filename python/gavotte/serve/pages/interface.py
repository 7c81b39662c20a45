"""The JSON interface of a store: its requests, and the answers to them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from pydantic import TypeAdapter

from gavotte.errors import GavotteError
from gavotte.extras import needs
from gavotte.serve.pages.openapi import Operation
from gavotte.serve.pages.shown import (
    EventRow,
    JobRow,
    KindDetail,
    KindRow,
    NetworkDetail,
    NetworkRow,
    Pair,
    TransferRow,
)

with needs("serve"):
    from aiohttp import web


def answer_by(source: object, operation: Operation) -> Callable[[web.Request], Awaitable[web.Response]]:
    """Return a handler that answers an operation from what it is about."""
    adapter: TypeAdapter[object] = TypeAdapter(operation.answer)

    def read(request: web.Request) -> bytes:
        return adapter.dump_json(operation.read(source, request.match_info, request.query))

    async def answer(request: web.Request) -> web.Response:
        try:
            return web.Response(body=await asyncio.to_thread(read, request), content_type="application/json")
        except GavotteError as error:
            return web.json_response({"error": str(error)}, status=404)

    return answer


OPERATIONS: Sequence[Operation] = (
    Operation("/api/networks", "All networks, the newest first", list[NetworkRow], lambda s, *_: s.networks()),
    Operation(
        "/api/networks/{name}",
        "A network with its measurements",
        NetworkDetail,
        lambda s, path, _: s.network(path["name"]),
    ),
    Operation(
        "/api/networks/{name}/pair",
        "A pair of hosts over time",
        Pair,
        lambda s, path, query: s.pair(path["name"], query.get("source", ""), query.get("target", "")),
        query=("source", "target"),
    ),
    Operation("/api/jobs", "All jobs, the one that ran last first", list[JobRow], lambda s, *_: s.jobs()),
    Operation("/api/jobs/{job}", "A job with its runs", JobRow, lambda s, path, _: s.job(path["job"])),
    Operation("/api/events", "Events of watches, the newest first", list[EventRow], lambda s, *_: s.events()),
    Operation(
        "/api/transfers", "The controller's queue, the newest first", list[TransferRow], lambda s, *_: s.transfers()
    ),
    Operation("/api/measurements", "Kinds of measured values", list[KindRow], lambda s, *_: s.kinds()),
    Operation(
        "/api/measurements/{kind}",
        "A kind with its newest values",
        KindDetail,
        lambda s, path, _: s.kind(path["kind"]),
    ),
)
"""Requests of the JSON interface about a store."""
