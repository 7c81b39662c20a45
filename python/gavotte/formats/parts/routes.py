"""How a controller reaches an agent: the parts of a host's `agent` key."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from gavotte.formats.files.reading import problem

DATA_PORT = 7411
"""Default port of an agent's data plane."""

CONTROL_PORT = 7412
"""Default port at which an agent that serves TLS listens for its controller."""

_FORMS = 'write "unix:/path/of/its.sock", "ssh://[user@]host[:port]" or "tls://host[:port]"'
_SSH_REMEDY = 'write "ssh://[user@]host[:port][?data-port=N]"'
_TLS_REMEDY = 'write "tls://host[:port][?name=NAME]"'
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+\\-]*")
_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_BRACKETS = re.compile(r"\[([0-9A-Fa-f:.]+(?:%[A-Za-z0-9_.-]+)?)\]")
_QUERY = re.compile(r"data-port=([0-9]{1,5})")
_NAME_QUERY = re.compile(r"name=([A-Za-z0-9_][A-Za-z0-9_.-]{0,252})")


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
        host: as the ssh client accepts it: a name, an address, or an alias of the user's configuration.
        user: login name; None leaves it to the client.
        port: port of the SSH server; None leaves it to the client.
        data_port: port of the agent's data plane.
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
    """An agent that runs permanently and listens on TCP with mutual TLS.

    Attributes:
        host: name or address at which it listens.
        port: port at which it listens.
        name: name that its certificate must contain; None = `host`. The address of a pod is not known in advance.
    """

    host: str
    port: int = CONTROL_PORT
    name: str | None = None

    def __str__(self) -> str:
        return f"tls://{self.location}" + (f"?name={self.name}" if self.name else "")

    @property
    def location(self) -> str:
        """Host and port, as in a URL."""
        return f"{_bracketed(self.host)}:{self.port}"


Route = UnixRoute | SshRoute | TlsRoute


def parse_route(text: str) -> Route:
    """Split the text of an `agent` key into its parts.

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
        match = _QUERY.fullmatch(query)
        if mark and not (match and int(match[1]) <= 65535):
            raise problem(f"`{text}` ends in an unknown `{query}`", _SSH_REMEDY)
        return SshRoute(host, user or None, port, int(match[1]) if match else DATA_PORT)
    if text.startswith("tls://"):
        place, mark, query = text.removeprefix("tls://").partition("?")
        host, port = _place(place, text, _TLS_REMEDY)
        named = _NAME_QUERY.fullmatch(query)
        if mark and not named:
            raise problem(f"`{text}` ends in an unknown `{query}`", _TLS_REMEDY)
        return TlsRoute(host, port or CONTROL_PORT, named[1] if named else None)
    raise problem(f"`{text}` does not name an agent", _FORMS)


def _place(place: str, whole: str, remedy: str) -> tuple[str, int | None]:
    """Split `host[:port]`. An IPv6 address is in brackets."""
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
