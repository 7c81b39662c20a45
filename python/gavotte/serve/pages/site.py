"""Serve a store's pages and JSON interface, and report its changes to open pages."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from gavotte.errors import GavotteError
from gavotte.extras import needs
from gavotte.formats.parts.counting import counted
from gavotte.formats.parts.rates import common_unit, format_bytes, format_rate
from gavotte.formats.parts.times import utc
from gavotte.model import model
from gavotte.report import Outcome
from gavotte.report.page import contents, environment, traffic_grid
from gavotte.serve.pages.curves import Curve, Line, curve
from gavotte.serve.pages.openapi import Operation, openapi
from gavotte.serve.pages.shown import (
    EventRow,
    JobRow,
    KindDetail,
    KindRow,
    MetricRow,
    NetworkDetail,
    NetworkRow,
    Pair,
    TransferRow,
)
from gavotte.simulate import simulate_placement

with needs("serve"):
    from aiohttp import web

if TYPE_CHECKING:
    from gavotte.formats.app import App
    from gavotte.formats.network import Network
    from gavotte.formats.placement import Placement
    from gavotte.serve.current import Current
    from gavotte.serve.pages.catalogue import Catalogue

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


class Site:
    """All pages, and the same contents as JSON.

    Args:
        catalogue: the contents of the store; None = no store is served.
        network: the Network of a file; None = no file is served.
        placed: returns the newest Placement with its Apps; None = none is served.
    """

    def __init__(
        self, catalogue: Catalogue | None, network: Current[Network] | None, placed: Callable[[], Placed] | None = None
    ) -> None:
        self._catalogue = catalogue
        self._network = network
        self._placed = placed
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
        shared += [web.get(each.path, _answer(stored, each)) for each in OPERATIONS]
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
            }
            | shown
        )

    def _rooms(self) -> dict[str, str]:
        """Return the pages of the menu, each with its title: those that have something to show."""
        stored = self._catalogue
        if stored is None:
            return {}
        served = {} if self._network is None else {"/network": "Served network"}
        rooms = stored.rooms()
        pages = {
            f"/{room}": room.capitalize() for room in ("jobs", "events", "transfers", "measurements") if room in rooms
        }
        return {"/": "Networks"} | served | pages

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
            rates_curve=_medians(detail),
            latency_curve=_latencies(detail),
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
            rates_curve=_pair_rates(pair),
            latency_curve=curve(
                "Latency over time",
                [each.time_s for each in pair.measurements],
                [Line("latency", [_times(MS, each.latency_s) for each in pair.measurements])],
                "ms",
            ),
        )

    def _jobs_page(self, stored: Catalogue, request: web.Request) -> str:
        return self._render(request, "jobs", title="Jobs", jobs=stored.jobs())

    def _job_page(self, stored: Catalogue, request: web.Request) -> str:
        job = stored.job(request.match_info["job"])
        app = stored.app(job.job)
        grid = None if app is None else traffic_grid(app)
        return self._render(
            request, "job", title="Job", job=job, runs_curve=_runs(job), app=app, grid=grid, pair_page=""
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
            request, "kind", title=kind.kind, kind=kind, quantities=[(each, _values(each)) for each in kind.quantities]
        )

    async def _describe(self, _: web.Request) -> web.Response:
        return web.json_response(openapi(OPERATIONS if self._catalogue is not None else []))

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
        return f"{network}:{stored}"


def _shared_file(name: str, kind: str) -> Callable[[web.Request], Awaitable[web.Response]]:
    """Return a handler that answers by a file of the report, whose style and script the pages share."""
    text = environment().get_template(name).render()

    async def answer(_: web.Request) -> web.Response:
        return web.Response(text=text, content_type=kind)

    return answer


def _answer(stored: Catalogue, operation: Operation) -> Callable[[web.Request], Awaitable[web.Response]]:
    adapter: TypeAdapter[object] = TypeAdapter(operation.answer)

    def read(request: web.Request) -> bytes:
        return adapter.dump_json(operation.read(stored, request.match_info, request.query))

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
"""Requests of the JSON interface."""


def _medians(detail: NetworkDetail) -> Curve | None:
    unit, scale = common_unit([each.rate_bps or 0.0 for each in detail.measurements])
    return curve(
        "Median rate over time",
        [each.time_s for each in detail.measurements],
        [Line("median rate", [_times(1 / scale, each.rate_bps) for each in detail.measurements])],
        unit,
    )


def _latencies(detail: NetworkDetail) -> Curve | None:
    return curve(
        "Median latency over time",
        [each.time_s for each in detail.measurements],
        [Line("median latency", [_times(MS, each.latency_s) for each in detail.measurements])],
        "ms",
    )


def _pair_rates(pair: Pair) -> Curve | None:
    rows = pair.measurements
    unit, scale = common_unit([rate or 0.0 for each in rows for rate in (each.rate_bps, each.back_bps)])
    return curve(
        "Rate over time",
        [each.time_s for each in rows],
        [
            Line(f"{pair.source} to {pair.target}", [_times(1 / scale, each.rate_bps) for each in rows]),
            Line(f"{pair.target} to {pair.source}", [_times(1 / scale, each.back_bps) for each in rows], "received"),
        ],
        unit,
    )


def _runs(job: JobRow) -> Curve | None:
    rows = job.runs
    return curve(
        "Wall time of each run, and what was predicted for it",
        [each.time_s for each in rows],
        [
            Line(
                "predicted",
                [each.predicted_s for each in rows],
                "simulated",
                [each.low_s for each in rows],
                [each.high_s for each in rows],
            ),
            Line("measured", [each.wall_s for each in rows]),
        ],
        "s",
    )


def _values(row: MetricRow) -> Curve | None:
    times_s = [each.time_s for each in row.values]
    return curve(row.metric, times_s, [Line(row.metric, [each.value for each in row.values])], "")


def _times(factor: float, value: float | None) -> float | None:
    return None if value is None else factor * value


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
