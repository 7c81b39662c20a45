"""Topograph 1.0's API: clients ask for a topology, poll for it, and get it as text.

`POST /v1/generate` answers 202 and an identifier. `GET /v1/topology?uid=` then answers 200 and the topology, 202 while
it is being made, or 404. `POST /v1/lookup` answers the same for a request that was made before (docs/api.md and
pkg/server/http_server.go of Topograph).

Clients name a provider, which Topograph would ask. Gavotte has measured instead, so that any name will do.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import subprocess
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import model_validator

from gavotte.errors import GavotteError
from gavotte.export import export_network
from gavotte.export.slurm import blocks_of_sizes
from gavotte.extras import needs
from gavotte.formats.files.reading import Emitted, validate, write_text
from gavotte.formats.network import Network
from gavotte.serve.bodies import SOURCE, read_json, refused

with needs("serve"):
    from aiohttp import web

LABELS = "k8s"
"""Topograph's engine that sets labels of nodes, as --label-nodes does."""

ENGINES = ("graph", "slurm", LABELS)
"""Topograph's engines that this service has. The others change objects of Slinky and of Node Feature Discovery."""

TREE, BLOCK = "topology/tree", "topology/block"

WRITTEN = "OK\n"
"""Topograph's answer instead of a topology that it has written."""

RECONFIGURE_S = 60.0
"""Most seconds for `scontrol reconfigure`."""

MOST_RESULTS = 1000
"""Most results that are kept for clients that poll."""


class _Nullable(Emitted):
    """An object whose fields may be null, as Go writes empty maps and slices."""

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, document: Any) -> Any:
        if not isinstance(document, dict):
            return document
        return {key: value for key, value in document.items() if value is not None}


class _Named(_Nullable):
    name: str = ""
    params: dict[str, Any] = {}


class _SlurmParams(_Nullable):
    plugin: str = TREE
    blockSizes: list[int] = []  # noqa: N815 - Topograph's name
    topologyConfigPath: str = ""  # noqa: N815
    reconfigure: bool = False


class _Instances(_Nullable):
    region: str = ""
    instances: dict[str, str] = {}


class _Request(_Nullable):
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
        file: the only file that clients may have written; None = none.
        labelling: whether the nodes of a Kubernetes cluster are being labelled.
        complain: called with a warning.
        older_labels: whether labels have the names that Topograph 0.3 to 0.5 gave them.
    """

    def __init__(
        self,
        network: Callable[[], Network],
        file: Path | None,
        labelling: bool,
        complain: Callable[[str], None],
        *,
        older_labels: bool = False,
    ) -> None:
        self._older_labels = older_labels
        self._network = network
        self._file = file
        self._labelling = labelling
        self._complain = complain
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
            asked = self._asked(await read_json(request))
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
            return self._result(self._asked(await read_json(request)).uid)
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
        if asked.engine.name == "slurm":
            return self._slurm(network, validate(_SlurmParams, asked.engine.params, SOURCE))
        if asked.engine.name == LABELS:
            return WRITTEN
        text = export_network(network, "topograph", older_labels=self._older_labels)
        return _with_idents(text, names) if names else text

    def _slurm(self, network: Network, params: _SlurmParams) -> str:
        """Return Slurm's topology, or write it to its file if that is allowed."""
        if params.plugin == BLOCK:
            text = blocks_of_sizes(network, params.blockSizes)
        else:
            text = export_network(network, "slurm-conf")
        path = params.topologyConfigPath
        if not path:
            return text
        if self._file is None or Path(path).absolute() != self._file.absolute():
            self._complain(
                f"a client wants {path[:256]} to be written, and gets the topology as text; start the service with "
                f"--topology-file {path[:256]} to allow it"
            )
            return text
        write_text(self._file, text)
        if params.reconfigure:
            _reconfigure()
        return WRITTEN

    def _asked(self, document: Any) -> _Request:
        """Check a request, and refuse what this service does not do.

        Raises:
            GavotteError: in one line.
        """
        asked = _Request() if document is None else validate(_Request, document, SOURCE)
        engine = asked.engine.name
        if engine and engine not in ENGINES:
            raise GavotteError(f"unsupported engine {engine[:64]}", hint=f"use one of {', '.join(ENGINES)}")
        if engine == LABELS and not self._labelling:
            raise GavotteError(f"the engine {LABELS} labels nodes", hint="start the service with --label-nodes")
        if engine == "slurm":
            params = validate(_SlurmParams, asked.engine.params, f"{SOURCE}: engine.params")
            if params.plugin not in (TREE, BLOCK):
                raise GavotteError(f"unsupported plugin {params.plugin[:64]}", hint=f"use {TREE} or {BLOCK}")
            for name in ("topologies", "blockName"):
                if asked.engine.params.get(name):
                    raise GavotteError(
                        f"engine.params.{name} is not supported", hint="leave it out: all nodes have one topology"
                    )
        return asked


def _reconfigure() -> None:
    """Let Slurm read its settings again.

    Raises:
        GavotteError: when it does not.
    """
    line = ["scontrol", "reconfigure"]
    try:
        ran = subprocess.run(line, capture_output=True, text=True, timeout=RECONFIGURE_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise GavotteError(f"scontrol reconfigure: {error}", hint="run it where the service runs") from None
    if ran.returncode:
        raise GavotteError(f"scontrol reconfigure: {ran.stderr.strip()[-512:]}", hint="see Slurm's log")


def _with_idents(text: str, idents: dict[str, str]) -> str:
    """Return Topograph's graph with the identifiers of the request instead of the nodes' names."""
    document = json.loads(text)
    for instance in document["instances"]:
        instance["id"] = idents.get(instance["id"], instance["id"])
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
