"""Topograph 1.0's API: clients ask for a topology, poll for it, and get it as text.

`POST /v1/generate` answers 202 and an identifier. `GET /v1/topology?uid=` then answers 200 and the topology, 202 while
it is being made, or 404. `POST /v1/lookup` answers the same for a request that was made before (docs/api.md and
pkg/server/http_server.go of Topograph).
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from gavotte.errors import GavotteError
from gavotte.export import export_network
from gavotte.extras import needs
from gavotte.formats.files.reading import Emitted, validate
from gavotte.formats.network import Network
from gavotte.serve.bodies import SOURCE, read_json, refused

with needs("serve"):
    from aiohttp import web

PROVIDER = "gavotte"

ENGINES = {"graph": "topograph", "slurm": "slurm-conf"}
"""Topograph's engines that make a text, and our formats. Its other engines change objects of a cluster."""

TREE = "topology/tree"

MOST_RESULTS = 1000
"""Most results that are kept for clients that poll."""


class _Named(Emitted):
    name: str = ""
    params: dict[str, Any] = {}


class _Instances(Emitted):
    region: str = ""
    instances: dict[str, str] = {}


class _Request(Emitted):
    provider: _Named = _Named()
    engine: _Named = _Named()
    nodes: list[_Instances] = []

    @property
    def uid(self) -> str:
        """The same for equal requests. Credentials do not count."""
        return hashlib.sha256(json.dumps(self.model_dump(), sort_keys=True).encode()).hexdigest()[:32]


class Topograph:
    """The service.

    Args:
        network: returns the newest Network.
    """

    def __init__(self, network: Callable[[], Network]) -> None:
        self._network = network
        self._results: OrderedDict[str, web.Response | None] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()

    def routes(self) -> list[web.RouteDef]:
        """Return the routes."""
        return [
            web.post("/v1/generate", self.generate),
            web.get("/v1/topology", self.topology),
            web.post("/v1/lookup", self.lookup),
        ]

    async def generate(self, request: web.Request) -> web.Response:
        """Take a request, and begin with its topology."""
        try:
            asked = _asked(await read_json(request))
        except GavotteError as error:
            return refused(error)
        uid = asked.uid
        self._results[uid] = None
        self._results.move_to_end(uid)
        while len(self._results) > MOST_RESULTS:
            self._results.popitem(last=False)
        task = asyncio.create_task(self._make(uid, asked))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return web.Response(status=202, text=uid)

    async def topology(self, request: web.Request) -> web.Response:
        """Return the result of a request."""
        uid = request.query.get("uid", "")
        return self._result(uid) if uid else web.Response(status=400, text="must specify request uid\n")

    async def lookup(self, request: web.Request) -> web.Response:
        """Return the result of an equal request."""
        try:
            return self._result(_asked(await read_json(request)).uid)
        except GavotteError as error:
            return refused(error)

    def _result(self, uid: str) -> web.Response:
        if uid not in self._results:
            return web.Response(status=404, text=f"request `{uid[:64]}` is unknown\n")
        made = self._results[uid]
        if made is None:
            return web.Response(status=202, text="the topology is being made\n")
        return web.Response(status=made.status, text=made.text)

    async def _make(self, uid: str, asked: _Request) -> None:
        try:
            made = web.Response(text=await asyncio.to_thread(self._text, asked))
        except GavotteError as error:
            made = web.Response(status=500, text=f"{error}\n")
        if uid in self._results:
            self._results[uid] = made

    def _text(self, asked: _Request) -> str:
        network = self._network()
        names = {name: ident for each in asked.nodes for ident, name in each.instances.items()}
        if names:
            network = network.of_hosts([at for at, host in enumerate(network.names) if host in names])
            if not network.hosts:
                raise GavotteError("no node of the request is a host of the Network", hint="measure the nodes")
        text = export_network(network, ENGINES[asked.engine.name or "graph"])
        return _with_idents(text, names) if names and asked.engine.name != "slurm" else text


def _asked(document: Any) -> _Request:
    """Check a request, and refuse what this service does not do.

    Raises:
        GavotteError: in one line.
    """
    asked = _Request() if document is None else validate(_Request, document, SOURCE)
    if asked.provider.name not in ("", PROVIDER):
        raise GavotteError(f"unsupported provider {asked.provider.name[:64]}", hint=f"use {PROVIDER}")
    if asked.engine.name and asked.engine.name not in ENGINES:
        raise GavotteError(f"unsupported engine {asked.engine.name[:64]}", hint=f"use one of {', '.join(ENGINES)}")
    params = asked.engine.params
    if params.get("plugin", TREE) != TREE or "topologies" in params:
        raise GavotteError(f"only the plugin {TREE} is supported", hint="leave out the plugin")
    if params.get("topologyConfigPath") or params.get("reconfigure"):
        raise GavotteError("this service writes no files", hint="leave out topologyConfigPath and reconfigure")
    return asked


def _with_idents(text: str, idents: dict[str, str]) -> str:
    """Return Topograph's graph with the identifiers of the request instead of the nodes' names."""
    document = json.loads(text)
    for instance in document["instances"]:
        instance["id"] = idents.get(instance["id"], instance["id"])
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
