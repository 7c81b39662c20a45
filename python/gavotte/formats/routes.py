"""How a controller reaches an agent: the text of a host's `agent` key, taken apart."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from gavotte.formats.reading import problem

DATA_PORT = 7411
"""Where an agent's data plane listens when nothing else is said."""

CONTROL_PORT = 7412
"""Where an agent listens for its controller when it serves TLS and nothing else is said."""

_FORMS = 'write "unix:/path/of/its.sock", "ssh://[user@]host[:port]" or "tls://host[:port]"'
_SSH_REMEDY = 'write "ssh://[user@]host[:port][?data-port=N]"'
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+\\-]*")
_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_BRACKETS = re.compile(r"\[([0-9A-Fa-f:.]+(?:%[A-Za-z0-9_.-]+)?)\]")
_QUERY = re.compile(r"data-port=([0-9]{1,5})")


@dataclass(frozen=True)
class UnixRoute:
    """An agent on this machine.

    Attributes:
        path: its Unix socket.
    """

    path: str


@dataclass(frozen=True)
class SshRoute:
    """An agent that is started over SSH for each run.

    Attributes:
        host: as the ssh client takes it: a name, an address, or an alias of the user's configuration.
        user: who logs in; None leaves it to the client.
        port: of the SSH server; None leaves it to the client.
        data_port: where the agent's data plane listens.
    """

    host: str
    user: str | None = None
    port: int | None = None
    data_port: int = DATA_PORT

    def __str__(self) -> str:
        user = f"{self.user}@" if self.user else ""
        port = f":{self.port}" if self.port else ""
        query = f"?data-port={self.data_port}" if self.data_port != DATA_PORT else ""
        return f"ssh://{user}{_bracketed(self.host)}{port}{query}"


@dataclass(frozen=True)
class TlsRoute:
    """An agent that is up by itself and listens on TCP with mutual TLS.

    Attributes:
        host: name or address, which its certificate must bear.
        port: where it listens.
    """

    host: str
    port: int = CONTROL_PORT

    def __str__(self) -> str:
        return f"tls://{self.location}"

    @property
    def location(self) -> str:
        """Host and port, as in a URL."""
        return f"{_bracketed(self.host)}:{self.port}"


Route = UnixRoute | SshRoute | TlsRoute


def parse_route(text: str) -> Route:
    """Takes the text of an `agent` key apart.

    Raises:
        PydanticCustomError: with what is wrong and what to write instead.
    """
    if text.startswith("unix:/") and "\0" not in text:
        return UnixRoute(text.removeprefix("unix:"))
    if text.startswith("ssh://"):
        rest, mark, query = text.removeprefix("ssh://").partition("?")
        user, at, place = rest.rpartition("@")
        host, port = _place(place, text, _SSH_REMEDY)
        if at and not _USER.fullmatch(user):
            raise problem(f"`{text}` names a user `{user}`", _SSH_REMEDY)
        found = _QUERY.fullmatch(query)
        if mark and not (found and int(found[1]) <= 65535):
            raise problem(f"`{text}` ends in an unknown `{query}`", _SSH_REMEDY)
        return SshRoute(host, user or None, port, int(found[1]) if found else DATA_PORT)
    if text.startswith("tls://"):
        host, port = _place(text.removeprefix("tls://"), text, 'write "tls://host[:port]"')
        return TlsRoute(host, port or CONTROL_PORT)
    raise problem(f"`{text}` does not name an agent", _FORMS)


def _place(place: str, whole: str, remedy: str) -> tuple[str, int | None]:
    """Splits `host[:port]`, where an IPv6 address stands in brackets."""
    bracketed = _BRACKETS.match(place)
    host = bracketed[1] if bracketed else place.partition(":")[0]
    rest = place[bracketed.end() :] if bracketed else place[len(host) :]
    if not (_is_ipv6(host) if bracketed else _HOST.fullmatch(host)):
        raise problem(f"`{whole}` names no host", remedy)
    if not rest:
        return host, None
    port = rest[1:]
    if rest[0] != ":" or not re.fullmatch(r"[0-9]{1,5}", port) or not 0 < int(port) <= 65535:
        raise problem(f"`{whole}` ends in `{rest}`, which is not a port", remedy)
    return host, int(port)


def _is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
