"""Make keys for mutual TLS: the tenant's own certificate authority signs for the controller and for each host.

A host's certificate is for servers only and the controller's for clients only, so a stolen host key cannot command the
other agents.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gavotte.errors import GavotteError

AUTHORITY = "ca.pem"
AUTHORITY_KEY = "ca.key"
CONTROLLER = "controller.pem"
CONTROLLER_KEY = "controller.key"
HOSTS = "hosts"
HOST = "host.pem"
HOST_KEY = "host.key"

DAYS = 365


@dataclass(frozen=True)
class Bearer:
    """Host that gets a certificate.

    Attributes:
        name: name of the host's folder.
        places: names and addresses by which the controller reaches it.
    """

    name: str
    places: tuple[str, ...]


def read_bearer(text: str) -> Bearer:
    """Read `NAME[=ADDRESS[,ADDRESS]...]`. Without addresses the host is reached by its name.

    Raises:
        GavotteError: when it is anything else.
    """
    name, mark, rest = text.partition("=")
    places = tuple(rest.split(",")) if mark else (name,)
    bearer = Bearer(name.replace(":", "-").strip("-"), places)
    _check(bearer)
    return bearer


def keys(
    folder: Path, bearers: Sequence[Bearer], *, days: int = DAYS, add: bool = False, force: bool = False
) -> list[Path]:
    """Make keys and certificates.

    `folder` gets `ca.pem`, `ca.key`, `controller.pem` and `controller.key`. For each host it gets `hosts/NAME/` with
    `ca.pem`, `host.pem` and `host.key`, which belong on that host. Private keys have mode 0600.

    Args:
        folder: folder for the files; made if need be.
        bearers: the hosts.
        days: how long everything is valid.
        add: sign for further hosts with the authority that is in `folder`.
        force: replace existing files.

    Returns:
        The files, in the order they were written.

    Raises:
        GavotteError: when something would be overwritten, or the folder cannot be used.
        UnsupportedError: without cryptography.
    """
    if not bearers:
        raise GavotteError("no host named", hint="name at least one, or use --hosts")
    if not 1 <= days <= 36500:
        raise GavotteError(f"keys cannot be valid for {days} days", hint="use 1 to 36500")
    for bearer in bearers:
        _check(bearer)
    names = [bearer.name for bearer in bearers]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise GavotteError(f"host `{twice}` is named twice", hint="name it once")
    from gavotte.hosts import certificates

    files: dict[str, bytes] = {}
    until = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=days)
    if add:
        authority = certificates.read_authority(folder / AUTHORITY, folder / AUTHORITY_KEY)
    else:
        authority = certificates.new_authority(until)
        files[AUTHORITY_KEY], files[AUTHORITY] = authority.pem
        files[CONTROLLER_KEY], files[CONTROLLER] = authority.for_client("gavotte controller", until).pem
    for bearer in bearers:
        place = f"{HOSTS}/{bearer.name}"
        signed = authority.for_server(bearer.name, bearer.places, until)
        files[f"{place}/{HOST_KEY}"], files[f"{place}/{HOST}"] = signed.pem
        files[f"{place}/{AUTHORITY}"] = authority.pem[1]
    standing = [] if force else [name for name in files if (folder / name).exists()]
    if standing:
        hint = "name another folder, or give --force" if add else "name another folder, or give --add or --force"
        raise GavotteError(f"{folder / standing[0]} already exists", hint=hint)
    return _write(folder, files)


def _check(bearer: Bearer) -> None:
    letters = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._")
    if not bearer.name or not set(bearer.name) <= letters or bearer.name[0] in "-." or len(bearer.name) > 63:
        raise GavotteError(f"`{bearer.name}` is not a host name", hint="use NAME or NAME=ADDRESS,ADDRESS")
    for place in bearer.places:
        if _address(place) is None and (not place or not set(place) <= letters or place[0] in "-." or len(place) > 253):
            raise GavotteError(
                f"`{place}` of host `{bearer.name}` is neither a name nor an address",
                hint="use NAME=ADDRESS,ADDRESS",
            )


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _write(folder: Path, files: dict[str, bytes]) -> list[Path]:
    """Write all files under temporary names, then rename each to its own."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".new-", dir=folder) as aside:
            for number, (name, content) in enumerate(files.items()):
                mode = 0o600 if name.endswith(".key") else 0o644
                handle = os.open(Path(aside, str(number)), os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
                with os.fdopen(handle, "wb") as stream:
                    stream.write(content)
            for number, name in enumerate(files):
                target = folder / name
                target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                Path(aside, str(number)).replace(target)
    except OSError as error:
        raise GavotteError(f"{folder}: {error.strerror}", hint="use a folder that you may write to") from None
    return [folder / name for name in files]
