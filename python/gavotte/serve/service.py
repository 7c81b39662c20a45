"""All answers of the service, each from the newest files."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from gavotte.export import export_network
from gavotte.extras import needs
from gavotte.formats.app import read_app
from gavotte.formats.network import read_network
from gavotte.formats.placement import read_placement
from gavotte.report import report
from gavotte.serve.access import Access
from gavotte.serve.current import Current
from gavotte.serve.metrics import metrics
from gavotte.serve.question import ServeQuestion
from gavotte.serve.scheduling import Extender, Scores
from gavotte.serve.topograph import Topograph

with needs("serve"):
    from aiohttp import web
    from aiohttp.typedefs import Handler

MOST_BODY_BYTES = 64 << 20
"""Largest request: a scheduler that caches no nodes sends 5,000 of them whole."""

HTML = "text/html"


class Service:
    """All answers.

    Args:
        question: what to serve.
        complain: called with a warning.

    Raises:
        GavotteError: when a file cannot be read, or the Network's groups form no tree.
    """

    def __init__(self, question: ServeQuestion, complain: Callable[[str], None]) -> None:
        self.question = question
        self.network = Current(question.network, read_network, complain)
        export_network(self.network.get(), "topograph")
        self.requests: Counter[tuple[str, int]] = Counter()
        self._placement = None
        if question.placement is not None:
            self._placement = Current(question.placement, read_placement, complain)
            self._apps = [Current(path, read_app, complain) for path in question.apps]
            self._scores: tuple[tuple[object, ...], Scores] | None = None
            self.scores()
        self._page: tuple[tuple[int, ...], str] | None = None

    def scores(self) -> Scores:
        """Return the scores of the newest files."""
        assert self._placement is not None
        network, placement = self.network.get(), self._placement.get()
        apps = [app.get() for app in self._apps]
        parts = (network, placement, *apps)
        if self._scores is None or any(a is not b for a, b in zip(self._scores[0], parts, strict=True)):
            self._scores = parts, Scores(network, placement, apps)
        return self._scores[1]

    def page(self) -> str:
        """Return the page of the Network, drawn again when its file has changed."""
        network, mark = self.network.get(), self.network.mark
        if self._page is None or self._page[0] != mark:
            with tempfile.TemporaryDirectory(prefix="gavotte-serve-") as folder:
                path = Path(folder) / "page.html"
                report(path, network)
                self._page = mark, path.read_text("utf-8")
        return self._page[1]

    def application(self, access: Access) -> web.Application:
        """Return the routes, behind what checks and counts each request."""

        @web.middleware
        async def count(request: web.Request, handler: Handler) -> web.StreamResponse:
            status = 500
            try:
                answer = await handler(request)
                status = answer.status
                return answer
            except web.HTTPException as error:
                status = error.status
                raise
            finally:
                resource = request.match_info.route.resource
                self.requests[resource.canonical if resource is not None else "other", status] += 1

        application = web.Application(client_max_size=MOST_BODY_BYTES, middlewares=[count, access.middleware()])
        application.add_routes(
            [
                web.get("/", self._show),
                web.get("/api/network", self._tell),
                web.get("/healthz", _healthy),
                web.get("/metrics", self._measure),
                *Topograph(self.network.get).routes(),
            ]
        )
        if self._placement is not None:
            application.add_routes(Extender(self.scores).routes())
        return application

    async def _show(self, _: web.Request) -> web.Response:
        return web.Response(text=await asyncio.to_thread(self.page), content_type=HTML)

    async def _tell(self, _: web.Request) -> web.Response:
        text = await asyncio.to_thread(self.network.get().model_dump_json, exclude_none=True)
        return web.Response(text=text, content_type="application/json")

    async def _measure(self, _: web.Request) -> web.Response:
        text = metrics(self.network.get(), self.network.modified_s, self.requests)
        return web.Response(text=text, headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})


async def _healthy(_: web.Request) -> web.Response:
    return web.Response(text="OK\n")
