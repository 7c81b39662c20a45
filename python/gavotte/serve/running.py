"""Listen, answer and end."""

from __future__ import annotations

import asyncio
import secrets
import ssl
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gavotte.errors import GavotteError
from gavotte.export import export_network
from gavotte.extras import needs
from gavotte.formats.app import read_app
from gavotte.formats.network import Network, read_network
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

START_S, END_S = 20.0, 5.0
"""How long the server may take to listen, and to end."""

HTML = "text/html"


@dataclass(frozen=True)
class ServeSession:
    """What is called meanwhile.

    Attributes:
        ready: called with the address to open once the server listens.
        complain: called with a warning.
        token: the secret in that address; empty = a new one.
    """

    ready: Callable[[str], None]
    complain: Callable[[str], None]
    token: str = ""


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
        """Return the application behind the server."""

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
        network: Network = self.network.get()
        text = await asyncio.to_thread(network.model_dump_json, exclude_none=True)
        return web.Response(text=text, content_type="application/json")

    async def _measure(self, _: web.Request) -> web.Response:
        text = metrics(self.network.get(), self.network.modified_s, self.requests)
        return web.Response(text=text, headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})


async def _healthy(_: web.Request) -> web.Response:
    return web.Response(text="OK\n")


def serve(question: ServeQuestion, session: ServeSession) -> None:
    """Serve until an exception ends the wait, such as the one of a signal.

    Raises:
        GavotteError: when a file cannot be read, or the address cannot be used.
    """
    question.check()
    service = Service(question, session.complain)
    access = Access(session.token or secrets.token_urlsafe(24), question.password(), question.is_local)
    context = _context(question)
    with _Server(service.application(access), question, context) as port:
        scheme, host = (
            "https" if context else "http",
            f"[{question.address}]" if ":" in question.address else question.address,
        )
        query = "" if access.password else f"?token={access.token}"
        session.ready(f"{scheme}://{host}:{port}/{query}")
        threading.Event().wait()


def _context(question: ServeQuestion) -> ssl.SSLContext | None:
    if question.certificate is None or question.key is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(question.certificate, question.key)
    except (OSError, ssl.SSLError) as error:
        reason = getattr(error, "strerror", None) or getattr(error, "reason", None) or "cannot be read"
        raise GavotteError(
            f"{question.certificate}, {question.key}: {reason}", hint="give a certificate and its key in PEM"
        ) from None
    return context


class _Server:
    """A server on a thread of its own, so that a signal's exception never lands in the middle of an answer."""

    def __init__(self, application: web.Application, question: ServeQuestion, context: ssl.SSLContext | None) -> None:
        self._application = application
        self._question = question
        self._context = context
        self._loop = asyncio.new_event_loop()
        self._end: asyncio.Event | None = None
        self._listening = threading.Event()
        self._failure: OSError | None = None
        self._port = 0
        self._thread = threading.Thread(target=self._run, name="serve", daemon=True)

    def __enter__(self) -> int:
        """Listen; return the port."""
        self._thread.start()
        self._listening.wait(START_S)
        if self._failure is not None or not self._port:
            reason = self._failure.strerror if self._failure is not None else f"no answer within {START_S:.0f} s"
            place = f"{self._question.address}:{self._question.port}"
            raise GavotteError(f"cannot listen at {place}: {reason}", hint="choose another --address or --port")
        return self._port

    def __exit__(self, *_: object) -> None:
        """End all connections."""
        if self._end is not None:
            self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(END_S)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._answer())

    async def _answer(self) -> None:
        runner = web.AppRunner(self._application, access_log=None, handle_signals=False)
        await runner.setup()
        try:
            site = web.TCPSite(
                runner, self._question.address, self._question.port, ssl_context=self._context, shutdown_timeout=1.0
            )
            await site.start()
            self._port = runner.addresses[0][1]
            self._end = asyncio.Event()
            self._listening.set()
            await self._end.wait()
        except OSError as error:
            self._failure = error
            self._listening.set()
        finally:
            await runner.cleanup()
