"""Start and cancel commands from pages, and by the JSON interface."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from json import JSONDecodeError

from pydantic import BaseModel, ConfigDict, ValidationError

from gavotte.errors import GavotteError
from gavotte.extras import needs
from gavotte.serve.actions.offers import Offers
from gavotte.serve.actions.runs import Runs, RunState
from gavotte.serve.pages.openapi import Operation
from gavotte.serve.pages.shown import Shown

with needs("serve"):
    from aiohttp import web

REFUSED = 409
"""Status of a command that cannot be started."""


class Wanted(BaseModel):
    """A command that is to be started.

    Attributes:
        command: name of the offer.
        subject: what it is about: the network of `measure`, the transfer of `cancel`, the job of `launch`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    command: str
    subject: str = ""


class OfferRow(Shown):
    """A command that can be started without a subject.

    Attributes:
        command: its name.
        title: what it does.
        line: its command line.
    """

    command: str
    title: str
    line: str


@dataclass(frozen=True)
class Actions:
    """What pages can start, and what they have started."""

    offers: Offers
    runs: Runs

    def rows(self) -> list[OfferRow]:
        """Return the offers without a subject."""
        return [OfferRow(command=name, title=each.title, line=each.line) for name, each in self.offers.fixed.items()]

    def start(self, wanted: Wanted) -> RunState:
        """Start what is wanted.

        Raises:
            GavotteError: when this server does not offer it, or too much runs already.
        """
        offer = self.offers.get(wanted.command, wanted.subject)
        if offer is None:
            about = f" for `{wanted.subject[:60]}`" if wanted.subject else ""
            raise GavotteError(f"this server does not offer `{wanted.command[:60]}`{about}")
        return self.runs.start(offer)

    def cancel(self, number: str) -> RunState:
        """Cancel the command of a number.

        Raises:
            GavotteError: when there is none.
        """
        if not number.isascii() or not number.isdecimal() or len(number) > len(str(1 << 62)):
            raise GavotteError(f"no command {number[:60]} was started here")
        return self.runs.cancel(int(number))

    def operations(self) -> list[Operation]:
        """Return the requests of the JSON interface. `routes` carries out those that change something."""
        return [
            Operation(
                "/api/commands",
                "Commands that need no subject",
                list[OfferRow],
                lambda a, *_: a.rows(),
            ),
            Operation("/api/runs", "Started commands, the newest first", list[RunState], lambda a, *_: a.runs.all()),
            Operation("/api/runs", "Start a command", RunState, method="post", body=Wanted),
            Operation("/api/runs/{run}/cancel", "Ask a started command to stop", RunState, method="post"),
        ]

    def routes(self) -> list[web.RouteDef]:
        """Return the routes of requests that change something. Pages are sent back to where the command is shown."""
        return [
            web.post("/commands", self._start_from_page),
            web.post("/commands/{run}/cancel", self._cancel_from_page),
            web.post("/api/runs", _answer(self._start_wanted)),
            web.post("/api/runs/{run}/cancel", _answer(self._cancel_wanted)),
        ]

    async def _start_from_page(self, request: web.Request) -> web.Response:
        form = await request.post()
        wanted = Wanted(command=str(form.get("command", "")), subject=str(form.get("subject", "")))
        return await _shown(lambda: self.start(wanted))

    async def _cancel_from_page(self, request: web.Request) -> web.Response:
        return await _shown(lambda: self.cancel(request.match_info["run"]))

    async def _start_wanted(self, request: web.Request) -> RunState:
        try:
            wanted = Wanted.model_validate(await request.json())
        except (JSONDecodeError, UnicodeDecodeError, ValidationError, RecursionError):
            raise GavotteError('this is no {"command": "...", "subject": "..."}') from None
        return await asyncio.to_thread(self.start, wanted)

    async def _cancel_wanted(self, request: web.Request) -> RunState:
        return await asyncio.to_thread(self.cancel, request.match_info["run"])


async def _shown(act: Callable[[], RunState]) -> web.Response:
    try:
        run = await asyncio.to_thread(act)
    except GavotteError as error:
        return web.Response(status=REFUSED, text=f"{error}\n")
    return web.Response(status=303, headers={"Location": f"/commands#run-{run.id}"})


def _answer(act: Callable[[web.Request], Awaitable[RunState]]) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(request: web.Request) -> web.Response:
        try:
            run = await act(request)
        except GavotteError as error:
            return web.json_response({"error": str(error)}, status=REFUSED)
        return web.Response(text=run.model_dump_json(), content_type="application/json")

    return answer
