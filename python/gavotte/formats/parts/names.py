"""Names of hosts, switches and tasks, and checks that several nouns share."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Annotated

from pydantic import AfterValidator, Field

from gavotte.errors import GavotteError
from gavotte.formats.files.reading import problem

_HOST_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?")

_SEPARATOR = re.compile(r"""[ /\\"']""")

MAX_LABEL = 128
"""Most characters of a task's or application's name."""

MOST_HOSTS = 100_000
"""Most hosts of a file, and most of each kind of element that joins them."""

MAX_NAME = 253
"""Longest host name in characters. DNS allows no longer one."""

MAX_NODE_NAME = 63
"""Longest name in characters of a host, switch or machine of a lab. The Linux kernel allows 64 for a hostname."""


def not_a_host_name(name: str) -> str:
    """Return why a text cannot be a host's name, or an empty text if it can."""
    if not 1 <= len(name) <= MAX_NAME:
        return f"has {len(name)} characters; a host's name has 1 to {MAX_NAME}"
    if not _HOST_NAME.fullmatch(name) or ".." in name:
        return f"`{name}` is not a host name"
    if (longest := max(map(len, name.split(".")))) > MAX_NODE_NAME:
        return f"has {longest} characters without a dot; DNS allows {MAX_NODE_NAME}"
    return ""


def _host_name(name: str) -> str:
    if reason := not_a_host_name(name):
        raise problem(reason, "use letters, digits and _, and between them also - and single dots")
    return name


def _unfit(text: str) -> bool:
    # Letters and digits alone need no second look: there may be 100,000 names. The only space that counts as printable
    # is the plain one.
    return not text.isalnum() and (not text.isprintable() or _SEPARATOR.search(text) is not None)


def label_of(text: str) -> str:
    """Return a task's or application's name made from any text. Unsuitable characters become dashes."""
    return "".join("-" if _unfit(letter) else letter for letter in text[:MAX_LABEL]) or "-"


def _label(name: str) -> str:
    if _unfit(name):
        raise problem(f"`{name}` has a space, quote, slash or control character", "use letters, digits, - _ . :")
    return name


HostName = Annotated[str, Field(min_length=1, max_length=MAX_NAME), AfterValidator(_host_name)]
"""A host's name as Slurm, Windows domains, Kubernetes and DNS allow it: `Node01`, `x_1`, `web1.example.com`.

Two hosts of one file must differ in more than upper and lower case, as in DNS.
"""

NodeName = Annotated[str, Field(min_length=1, max_length=MAX_NODE_NAME), AfterValidator(_host_name)]
"""Name of a host, switch or machine in a Topology: a `HostName` that the kernel accepts as a hostname."""

Label = Annotated[str, Field(min_length=1, max_length=MAX_LABEL), AfterValidator(_label)]
"""A task's or application's name: printable, no spaces, quotes or slashes."""


Key = Annotated[str, Field(min_length=1, max_length=MAX_NAME, pattern=r"^[A-Za-z0-9_.:/-]+$")]
"""Name of a resource or of a host's label, as Kubernetes writes them, too: `gpu`, `nvidia.com/gpu`."""

Amount = Annotated[int, Field(ge=0, le=1 << 40)]
"""A number of pieces of a counted resource."""

CoreSpeed = Annotated[float, Field(gt=0, le=1e3)]
"""Speed of a host's cores, where 1 is the speed in which tasks count their `cpus`."""


def check_unique(kind: str, names: Sequence[str], *, field: str) -> None:
    """Refuse a name that is used twice.

    Args:
        kind: the list's key, for the message's `kind[i].name`.
        names: in file order.
        field: the key of the name inside each entry.
    """
    _check_unique(kind, names, names, field)


def check_unique_hosts(kind: str, names: Sequence[str], *, field: str) -> None:
    """Refuse two names that differ in upper and lower case only: DNS takes both for the same host.

    Args:
        kind: the list's key, for the message's `kind[i].name`.
        names: in file order.
        field: the key of the name inside each entry.
    """
    _check_unique(kind, names, [name.lower() for name in names], field)


def _check_unique(kind: str, names: Sequence[str], compared: Sequence[str], field: str) -> None:
    seen: dict[str, int] = {}
    for index, (name, key) in enumerate(zip(names, compared, strict=True)):
        if (first := seen.setdefault(key, index)) != index:
            same = f"`{name}` is already the name of {kind}[{first}]"
            case = f"`{name}` and `{names[first]}` of {kind}[{first}] differ in upper and lower case only"
            raise problem(
                same if names[first] == name else case, "use different names", field=f"{kind}[{index}].{field}"
            )


def known_as(name: str, known: Collection[str]) -> str:
    """Return the known host name that equals `name` without regard to case, or `name` itself if there is none."""
    if name in known:
        return name
    return next((each for each in known if each.lower() == name.lower()), name)


SHOWN_NAMES = 8
"""Most names that a message lists."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that an unknown name most resembles."""
    return next(iter(difflib.get_close_matches(name, list(known), n=1)), None)


def meant(name: str, known: Iterable[str]) -> str:
    """Return the remedy for an unknown name: the nearest known name, or some of the known names."""
    names = list(known)
    if close := nearest(name, names):
        return f"did you mean `{close}`?"
    return f"use one of: {', '.join(sorted(names)[:SHOWN_NAMES])}" + (", ..." if len(names) > SHOWN_NAMES else "")


def left_after(names: Sequence[str], without: Collection[str]) -> list[int]:
    """Return the indices of hosts that are left in a History without some others.

    Raises:
        GavotteError: for a host that is not among the names, or when none is left.
    """
    gone = {known_as(host, names) for host in without}
    if unknown := sorted(gone - set(names)):
        raise GavotteError(
            f"cannot leave out `{unknown[0]}`, which is not in the History", hint=meant(unknown[0], names)
        )
    left = [i for i, name in enumerate(names) if name not in gone]
    if not left:
        raise GavotteError("no host is left", hint="leave out fewer")
    return left


def unknown_host(name: str, known: Iterable[str], where: str) -> GavotteError:
    """Return the error for an unknown host.

    Args:
        name: as the user wrote it.
        known: the names of the known hosts.
        where: what has them: "the network".
    """
    return GavotteError(f"{where} has no host `{name}`", hint=meant(name, known))


def check_known(name: str, known: Collection[str], *, field: str, what: str) -> None:
    """Refuse a reference to something that the file does not define.

    Args:
        name: the reference.
        known: the defined names.
        field: the field that contains the reference.
        what: what it should name, for the message.
    """
    if name not in known:
        names = list(known)
        raise problem(f"`{name}` is not a {what}", meant(name, names) if names else f"add a {what}", field=field)


def check_tree(kind: str, parents: Mapping[str, str | None], *, single_root: bool) -> None:
    """Refuse parents that form a circle, or several roots if only one is allowed.

    Args:
        kind: the list's key, for the message.
        parents: name to parent in file order; every parent is a known name.
        single_root: whether exactly one may have no parent.
    """
    index = {name: i for i, name in enumerate(parents)}
    rooted: set[str] = set()
    for name in parents:
        path: list[str] = []
        on_path: set[str] = set()
        at: str | None = name
        while at is not None and at not in rooted:
            if at in on_path:
                raise problem(f"`{at}` is its own ancestor", "break the circle", field=f"{kind}[{index[at]}].parent")
            path.append(at)
            on_path.add(at)
            at = parents[at]
        rooted.update(path)
    roots = [name for name, parent in parents.items() if parent is None]
    if single_root and len(roots) > 1:
        raise problem(
            f"`{roots[1]}` has no parent, but `{roots[0]}` is the root already",
            "give it a parent",
            field=f"{kind}[{index[roots[1]]}].parent",
        )
