"""Who may ask: a token or a password where people look, and no pages of other sites."""

from __future__ import annotations

import base64
import binascii
import hmac
from dataclasses import dataclass

from gavotte.extras import needs

with needs("serve"):
    from aiohttp import web
    from aiohttp.typedefs import Handler, Middleware

COOKIE = "gavotte-token"

SERVICES = ("/healthz", "/metrics", "/v1/", "/scheduler/")
"""Paths for programs, which cannot give a token. On loopback anyone on this machine may ask there."""

READING = ("GET", "HEAD", "OPTIONS")
"""Methods that change nothing."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""Content-Security-Policy: pages load files of this server only. Pictures of matrices are part of their pages."""

LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True)
class Access:
    """Who may ask.

    Attributes:
        token: for the page, on loopback.
        password: for everything; empty = none is needed.
        local: whether the server listens on loopback only.
    """

    token: str
    password: str
    local: bool

    def refusal(self, request: web.Request) -> web.Response | None:
        """Return the answer to a request that is not allowed; None = it is."""
        host = request.headers.get("Host", "")
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
        if self.local and name not in LOCAL_NAMES:
            # A name of another site that leads to this address.
            return web.Response(status=403, text="use the address that was printed\n")
        origin = request.headers.get("Origin")
        if origin is not None and origin.partition("://")[2] != host:
            return web.Response(status=403, text="pages of other sites may not ask\n")
        changes = request.method not in READING and not request.path.startswith(SERVICES)
        if changes and origin is None:
            # Browsers always name it, so that a page of another site cannot leave it out.
            return web.Response(status=403, text="name this server in the header Origin\n")
        if self.password:
            if _equal(_basic_password(request), self.password):
                return None
            return web.Response(
                status=401, headers={"WWW-Authenticate": 'Basic realm="gavotte"'}, text="a password is needed\n"
            )
        if request.path.startswith(SERVICES):
            return None
        given = request.query.get("token") or request.cookies.get(COOKIE) or ""
        return (
            None if _equal(given, self.token) else web.Response(status=401, text="use the address that was printed\n")
        )

    def middleware(self) -> Middleware:
        """Return what checks each request before it is answered."""

        @web.middleware
        async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
            refused = self.refusal(request)
            answer = await handler(request) if refused is None else refused
            answer.headers.setdefault("Cache-Control", "no-store")
            answer.headers.setdefault("X-Content-Type-Options", "nosniff")
            answer.headers.setdefault("X-Frame-Options", "DENY")
            # Without a referrer, browsers hide the origin of forms, also from their own site.
            answer.headers.setdefault("Referrer-Policy", "same-origin")
            answer.headers.setdefault("Content-Security-Policy", POLICY)
            if refused is None and request.query.get("token"):
                answer.set_cookie(COOKIE, self.token, httponly=True, samesite="Strict")
            return answer

        return guard


def _equal(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode(), wanted.encode())


def _basic_password(request: web.Request) -> str:
    kind, _, value = request.headers.get("Authorization", "").partition(" ")
    if kind.lower() != "basic":
        return ""
    try:
        return base64.b64decode(value, validate=True).decode().partition(":")[2]
    except (binascii.Error, ValueError):
        return ""
