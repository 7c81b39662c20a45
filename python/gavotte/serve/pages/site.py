"""Serve a store's pages and JSON interface, and report its changes to open pages."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gavotte.errors import GavotteError
from gavotte.extras import needs
from gavotte.formats.parts.counting import counted
from gavotte.formats.parts.rates import format_bytes, format_rate
from gavotte.formats.parts.times import utc
from gavotte.model import model
from gavotte.report import Outcome
from gavotte.report.page import contents, environment, traffic_grid
from gavotte.serve.pages.interface import OPERATIONS, answer_by
from gavotte.serve.pages.openapi import openapi
from gavotte.serve.pages.series import latencies_of, pair_latencies, pair_rates, rates_of, runs_of, values_of
from gavotte.simulate import simulate_placement

with needs("serve"):
    from aiohttp import web

if TYPE_CHECKING:
    from gavotte.formats.app import App
    from gavotte.formats.network import Network
    from gavotte.formats.placement import Placement
    from gavotte.serve.current import Current
    from gavotte.serve.pages.acting import Actions
    from gavotte.serve.pages.catalogue import Catalogue
    from gavotte.serve.pages.guarded import Guarded

    Placed = tuple[Placement, list[App]]

HERE = Path(__file__).parent

LOOK_S = 1.0
"""Interval of looking for changes of the store while a page is open."""
BEAT_S = 15.0
"""Interval of comments to a page without changes. Some proxies close connections that are silent for longer."""

SHOWN_EVENTS = 1000
"""Newest events of a page. A browser takes a second to renew ten times as many."""

LAST_S = 1e11
"""Latest time that can be asked for: the year 5138, whatever the platform's clock can hold."""

MS = 1e3


@dataclass(frozen=True)
class Contents:
    """All that pages show.

    Attributes:
        catalogue: the contents of the store; None = no store is served.
        network: the Network of a file; None = no file is served.
        placed: returns the newest Placement with its Apps; None = none is served.
        actions: what pages can start; None = nothing.
        guarded: the guarantees of the hosts; None = no hosts were named.
    """

    catalogue: Catalogue | None
    network: Current[Network] | None
    placed: Callable[[], Placed] | None = None
    actions: Actions | None = None
    guarded: Guarded | None = None


class Site:
    """All pages, and the same contents as JSON.

    Args:
        shown: what they show.
    """

    def __init__(self, shown: Contents) -> None:
        self._catalogue = shown.catalogue
        self._network = shown.network
        self._placed = shown.placed
        self._actions = shown.actions
        self._guarded = shown.guarded
        self._templates = environment(HERE / "templates")
        self._looked_s, self._mark = 0.0, ""
        self._looking = asyncio.Lock()

    def routes(self) -> list[web.RouteDef | web.StaticDef]:
        """Return the routes."""
        shared: list[web.RouteDef | web.StaticDef] = [
            # The report's files come before those of the folder.
            web.get("/static/page.css", _shared_file("page.css", "text/css")),
            web.get("/static/page.js", _shared_file("page.js", "text/javascript")),
            web.static("/static", HERE / "static"),
            web.get("/api/changes", self._changes),
            web.get("/api/openapi.json", self._describe),
        ]
        if self._network is not None:
            shared.append(web.get("/network" if self._catalogue else "/", self._page(self._file_page)))
        if self._actions is not None:
            actions = self._actions
            shared += [
                web.get("/commands", self._page(lambda request: self._commands_page(actions, request))),
                *actions.routes(),
                *(web.get(each.path, answer_by(actions, each)) for each in actions.operations() if not each.changes),
            ]
        if self._guarded is not None:
            guarded = self._guarded
            shared.append(web.get("/guarantees", self._page(lambda request: self._guarantees_page(guarded, request))))
            shared += [web.get(each.path, answer_by(guarded, each)) for each in guarded.operations()]
        if self._catalogue is None:
            return shared
        pages: dict[str, Callable[[Catalogue, web.Request], str]] = {
            "/": self._overview,
            "/networks/{name}": self._network_page,
            "/networks/{name}/pair": self._pair_page,
            "/jobs": self._jobs_page,
            "/jobs/{job}": self._job_page,
            "/events": self._events_page,
            "/transfers": self._transfers_page,
            "/measurements": self._kinds_page,
            "/measurements/{kind}": self._kind_page,
        }
        stored = self._catalogue
        for path, page in pages.items():
            shared.append(web.get(path, self._page(lambda request, page=page: page(stored, request))))  # type: ignore[misc]
        shared += [web.get(each.path, answer_by(stored, each)) for each in OPERATIONS]
        return shared

    def _page(self, page: Callable[[web.Request], str]) -> Callable[[web.Request], Awaitable[web.Response]]:
        """Return a handler that answers by a page, or by an error's page."""

        async def answer(request: web.Request) -> web.Response:
            try:
                text, status = await asyncio.to_thread(page, request), 200
            except GavotteError as error:
                text, status = await asyncio.to_thread(self._wrong, request, str(error)), 404
            return web.Response(text=text, status=status, content_type="text/html")

        return answer

    def _wrong(self, request: web.Request, reason: str) -> str:
        return self._render(request, "wrong", title="Not here", reason=reason)

    def _render(self, request: web.Request, name: str, **shown: object) -> str:
        return self._templates.get_template(f"{name}.html.jinja").render(
            {
                "rooms": self._rooms(),
                "here": request.path,
                "store": "" if self._catalogue is None else self._catalogue.name,
                "utc": utc,
                "size": format_bytes,
                "rate": _rate,
                "duration": _seconds,
                "counted": counted,
                "counted_rows": 20,
                "offer": _no_offer if self._actions is None else self._actions.offers.get,
            }
            | shown
        )

    def _rooms(self) -> dict[str, str]:
        """Return the pages of the menu, each with its title: those that have something to show."""
        stored, files = self._catalogue, {}
        if self._network is not None:
            files = {"/": "Network"} if stored is None else {"/network": "Served network"}
        rooms = set() if stored is None else stored.rooms()
        rooms |= {"guarantees"} if self._guarded is not None and self._guarded.has_news else set()
        rooms |= {"commands"} if self._actions is not None else set()
        names = ("jobs", "events", "transfers", "guarantees", "measurements", "commands")
        pages = {f"/{room}": room.capitalize() for room in names if room in rooms}
        # A single page needs no menu.
        return ({} if stored is None else {"/": "Networks"}) | (files if pages or stored else {}) | pages

    def _file_page(self, request: web.Request) -> str:
        assert self._network is not None
        network, made_s = self._network.get(), self._network.modified_s
        if self._placed is None:
            return self._render(request, "network", **contents(network, made_s=made_s))
        placement, apps = self._placed()
        outcomes = [Outcome(placement, simulated_s=simulate_placement(network, apps, placement))]
        return self._render(request, "network", **contents(network, apps=apps, outcomes=outcomes, made_s=made_s))

    def _overview(self, stored: Catalogue, request: web.Request) -> str:
        return self._render(request, "overview", title="Networks", networks=stored.networks())

    def _network_page(self, stored: Catalogue, request: web.Request) -> str:
        name = request.match_info["name"]
        detail = stored.network(name)
        at = request.query.get("at")
        until_s = None if at is None else _time(at)
        history = stored.history(name, until_s)
        shown = contents(model(history, method="median"), history=history, title=name)
        # The facts have the times of the measurements.
        shown |= {"pair_page": f"/networks/{name}/pair", "made": ""}
        return self._render(
            request,
            "stored_network",
            detail=detail,
            at=until_s,
            rates_curve=rates_of(detail, history),
            latency_curve=latencies_of(detail),
            **shown,
        )

    def _pair_page(self, stored: Catalogue, request: web.Request) -> str:
        name = request.match_info["name"]
        pair = stored.pair(name, request.query.get("source", ""), request.query.get("target", ""))
        return self._render(
            request,
            "pair",
            title=f"{pair.source} to {pair.target}",
            pair=pair,
            rates_curve=pair_rates(pair),
            latency_curve=pair_latencies(pair),
        )

    def _jobs_page(self, stored: Catalogue, request: web.Request) -> str:
        return self._render(request, "jobs", title="Jobs", jobs=stored.jobs())

    def _job_page(self, stored: Catalogue, request: web.Request) -> str:
        job = stored.job(request.match_info["job"])
        app = stored.app(job.job)
        grid = None if app is None else traffic_grid(app)
        return self._render(
            request, "job", title="Job", job=job, runs_curve=runs_of(job), app=app, grid=grid, pair_page=""
        )

    def _events_page(self, stored: Catalogue, request: web.Request) -> str:
        return self._render(request, "events", title="Events", events=stored.events(SHOWN_EVENTS), most=SHOWN_EVENTS)

    def _transfers_page(self, stored: Catalogue, request: web.Request) -> str:
        return self._render(request, "transfers", title="Transfers", transfers=stored.transfers())

    def _kinds_page(self, stored: Catalogue, request: web.Request) -> str:
        return self._render(request, "kinds", title="Measurements", kinds=stored.kinds())

    def _kind_page(self, stored: Catalogue, request: web.Request) -> str:
        kind = stored.kind(request.match_info["kind"])
        return self._render(
            request,
            "kind",
            title=kind.kind,
            kind=kind,
            quantities=[(each, values_of(each)) for each in kind.quantities],
        )

    def _commands_page(self, actions: Actions, request: web.Request) -> str:
        return self._render(
            request,
            "commands",
            title="Commands",
            offers=actions.rows(),
            runs=actions.runs.all(),
            can_measure=actions.offers.can_measure,
        )

    def _guarantees_page(self, guarded: Guarded, request: web.Request) -> str:
        return self._render(
            request,
            "guarantees",
            title="Guarantees",
            state=guarded.state,
            problem=guarded.problem,
            share=_share,
            hosts=guarded.hosts,
        )

    async def _describe(self, _: web.Request) -> web.Response:
        operations = [
            *(OPERATIONS if self._catalogue is not None else []),
            *(self._guarded.operations() if self._guarded is not None else []),
            *(self._actions.operations() if self._actions is not None else []),
        ]
        return web.json_response(openapi(operations))

    async def _changes(self, request: web.Request) -> web.StreamResponse:
        """Send the mark of the contents as a server-sent event, again whenever it changes."""
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
        await answer.prepare(request)
        sent, sent_s = None, 0.0
        while True:
            mark = await self._newest()
            now_s = time.monotonic()
            if mark != sent:
                await answer.write(f"event: mark\ndata: {mark}\n\n".encode())
                sent, sent_s = mark, now_s
            elif now_s - sent_s > BEAT_S:
                await answer.write(b": still here\n\n")
                sent_s = now_s
            await asyncio.sleep(LOOK_S)

    async def _newest(self) -> str:
        """Return the mark of the contents. The store is read at most once in `LOOK_S`, for all open pages."""
        async with self._looking:
            if time.monotonic() - self._looked_s >= LOOK_S * 0.9:
                self._mark = await asyncio.to_thread(self._look)
                self._looked_s = time.monotonic()
            return self._mark

    def _look(self) -> str:
        network = "" if self._network is None else ".".join(map(str, self._network.mark))
        try:
            stored = "" if self._catalogue is None else self._catalogue.mark()
        except GavotteError:
            return self._mark  # a database that is away has no news
        runs = "" if self._actions is None else self._actions.runs.mark()
        guarded = "" if self._guarded is None else self._guarded.mark()
        return f"{network}:{stored}:{runs}:{guarded}"


def _shared_file(name: str, kind: str) -> Callable[[web.Request], Awaitable[web.Response]]:
    """Return a handler that answers by a file of the report, whose style and script the pages share."""
    text = environment().get_template(name).render()

    async def answer(_: web.Request) -> web.Response:
        return web.Response(text=text, content_type=kind)

    return answer


def _no_offer(_name: str, _subject: str = "") -> None:
    return None


def _share(met: float | None) -> str:
    return "no traffic" if met is None else f"{100 * met:.1f} %"


def _rate(rate_bps: float | None) -> str:
    return "not known" if rate_bps is None else format_rate(rate_bps)


def _seconds(seconds: float | None) -> str:
    """Return a duration for people: `12.3 ms`, `4.56 s`."""
    if seconds is None:
        return "not known"
    return f"{MS * seconds:.3g} ms" if seconds < 1 else f"{seconds:.4g} s"


def _time(text: str) -> float:
    try:
        time_s = float(text)
    except ValueError:
        time_s = math.nan
    if not 0 <= time_s <= LAST_S:
        raise GavotteError(f"`{text[:30]}` is not a Unix time")
    return time_s
