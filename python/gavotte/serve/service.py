"""All answers of the service, each from the newest files."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

from gavotte.export import export_network
from gavotte.extras import needs
from gavotte.formats.app import App, read_app
from gavotte.formats.network import read_network
from gavotte.formats.placement import Placement, read_placement
from gavotte.serve.access import Access
from gavotte.serve.current import Current
from gavotte.serve.metrics import metrics
from gavotte.serve.pages.site import Contents, Site
from gavotte.serve.pods import TaskNodes
from gavotte.serve.predicting import Predictor
from gavotte.serve.question import ServeQuestion
from gavotte.serve.scheduling import Extender, Scores
from gavotte.serve.topograph import Topograph

with needs("serve"):
    from aiohttp import web
    from aiohttp.typedefs import Handler

MOST_BODY_BYTES = 64 << 20
"""Largest request: a scheduler that caches no nodes sends 5,000 of them whole."""

if TYPE_CHECKING:
    from gavotte.serve.pages.acting import Actions
    from gavotte.serve.pages.catalogue import Catalogue
    from gavotte.serve.pages.guarded import Guarded


class Service:
    """All answers. Use it in `with`, which closes the store and ends what pages have started.

    Args:
        question: what to serve.
        complain: called with a warning.
        note: called with a line about what a page has started.

    Raises:
        GavotteError: when a file cannot be read, or the Network's groups form no tree.
    """

    def __init__(
        self, question: ServeQuestion, complain: Callable[[str], None], note: Callable[[str], None] = lambda _: None
    ) -> None:
        self.question = question
        self._open = ExitStack()
        self.network = None
        if question.network is not None:
            self.network = Current(question.network, read_network, complain)
            export_network(self.network.get(), "topograph", older_labels=question.older_labels)
            self._topograph = Topograph(
                self.network.get,
                question.topology_file,
                question.label_nodes,
                complain,
                older_labels=question.older_labels,
            )
        self.task_nodes = TaskNodes()
        self.requests: Counter[tuple[str, int]] = Counter()
        self._placement = None
        if question.placement is not None:
            self._placement = Current(question.placement, read_placement, complain)
            self._apps = [Current(path, read_app, complain) for path in question.apps]
            self._scores: tuple[tuple[object, ...], Scores] | None = None
            self.scores()
        self._catalogue = self._opened()
        self._guarded = self._asked()
        self._actions = self._offered(note)

    def __enter__(self) -> Service:
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()

    def _opened(self) -> Catalogue | None:
        """Return what the store has; None without one."""
        if self.question.store is None:
            return None
        # The store's libraries are an extra of their own.
        from gavotte.serve.pages.catalogue import Catalogue
        from gavotte.store import open_store

        return Catalogue(self._open.enter_context(open_store(self.question.store or None, create=False)))

    def _asked(self) -> Guarded | None:
        """Return what knows the guarantees of the hosts; None without hosts. Check what pages are to use."""
        if not self.question.hosts:
            return None
        # What reaches agents takes 0.2 s to load.
        from gavotte.agents import resolve_hosts
        from gavotte.formats.guarantee import read_guarantee
        from gavotte.serve.pages.guarded import Guarded

        resolve_hosts(self.question.hosts)
        if self.question.guarantee is not None:
            read_guarantee(self.question.guarantee)
        return Guarded(self.question.hosts)

    def _offered(self, note: Callable[[str], None]) -> Actions | None:
        """Return what pages can start; None = nothing."""
        if self.question.read_only or (self._catalogue is None and not self.question.hosts):
            return None
        from gavotte.serve.actions.offers import Offers
        from gavotte.serve.actions.runs import Runs
        from gavotte.serve.pages.acting import Actions

        return Actions(Offers(self.question, self._catalogue), self._open.enter_context(Runs(note)))

    def scores(self) -> Scores:
        """Return the scores of the newest files."""
        assert self._placement is not None
        assert self.network is not None
        network, placement = self.network.get(), self._placement.get()
        apps = [app.get() for app in self._apps]
        parts = (network, placement, *apps)
        if self._scores is None or any(a is not b for a, b in zip(self._scores[0], parts, strict=True)):
            self._scores = parts, Scores(network, placement, apps)
        return self._scores[1]

    def _placed(self) -> tuple[Placement, list[App]]:
        """Return the newest Placement and its Apps."""
        assert self._placement is not None
        return self._placement.get(), [app.get() for app in self._apps]

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
                web.get("/healthz", _healthy),
                web.get("/metrics", self._measure),
                *Site(
                    Contents(
                        self._catalogue,
                        self.network,
                        self._placed if self._placement else None,
                        self._actions,
                        self._guarded,
                    )
                ).routes(),
            ]
        )
        if self.network is not None:
            application.add_routes([web.get("/api/network", self._tell), *self._topograph.routes()])
        if self._placement is not None:
            application.add_routes([*Extender(self.scores, self.task_nodes).routes(), *Predictor(self.scores).routes()])
        return application

    async def _tell(self, _: web.Request) -> web.Response:
        assert self.network is not None
        text = await asyncio.to_thread(self.network.get().model_dump_json, exclude_none=True)
        return web.Response(text=text, content_type="application/json")

    def _metrics(self) -> str:
        network, modified_s = (None, 0.0) if self.network is None else (self.network.get(), self.network.modified_s)
        text = metrics(network, modified_s, self.requests, self._catalogue)
        return text if self._guarded is None else text + self._guarded.metrics()

    async def _measure(self, _: web.Request) -> web.Response:
        text = await asyncio.to_thread(self._metrics)
        return web.Response(text=text, headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})


async def _healthy(_: web.Request) -> web.Response:
    return web.Response(text="OK\n")
