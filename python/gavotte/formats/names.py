"""Names of hosts, switches and tasks, and checks that several nouns share."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Annotated

from pydantic import AfterValidator, Field

from gavotte.errors import GavotteError
from gavotte.formats.reading import problem

_HOST_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-.")

MAX_LABEL = 128
"""Letters of a task's or application's name."""

MOST_HOSTS = 100_000
"""Of a file: hosts, and each kind of what joins them."""

MAX_NAME = 63
"""Letters of a host's name: what DNS and the kernel take."""


def not_a_host_name(name: str) -> str:
    """Says why a text is not a host's name; empty = it is one."""
    if not 1 <= len(name) <= MAX_NAME:
        return f"has {len(name)} letters; a host's name has 1 to {MAX_NAME}"
    if not set(name) <= _HOST_LETTERS or name[0] in "-." or name[-1] in "-.":
        return f"`{name}` is not a host name"
    return ""


def _host_name(name: str) -> str:
    if reason := not_a_host_name(name):
        raise problem(reason, "use a-z, 0-9, - and . inside the name")
    return name


def _unfit(letter: str) -> bool:
    return letter.isspace() or not letter.isprintable() or letter in "/\\\"'"


def label_of(text: str) -> str:
    """A task's or application's name made of any text, as of a file's name: what does not fit becomes a dash."""
    return "".join("-" if _unfit(letter) else letter for letter in text[:MAX_LABEL]) or "-"


def _label(name: str) -> str:
    if any(_unfit(letter) for letter in name):
        raise problem(f"`{name}` has a space, quote, slash or control character", "use letters, digits, - _ . :")
    return name


HostName = Annotated[str, Field(min_length=1, max_length=MAX_NAME), AfterValidator(_host_name)]
"""A name that DNS and the kernel's hostname both take."""

Label = Annotated[str, Field(min_length=1, max_length=MAX_LABEL), AfterValidator(_label)]
"""A task's or application's name: printable, no spaces, quotes or slashes."""


def check_unique(kind: str, names: Sequence[str], *, field: str) -> None:
    """Refuses a name that stands twice.

    Args:
        kind: the list's key, for the message's `kind[i].name`.
        names: in file order.
        field: the key of the name inside each entry.
    """
    seen: dict[str, int] = {}
    for index, name in enumerate(names):
        if name in seen:
            raise problem(
                f"`{name}` is already the name of {kind}[{seen[name]}]",
                "use different names",
                field=f"{kind}[{index}].{field}",
            )
        seen[name] = index


SHOWN_NAMES = 8
"""Of many names, so many are told."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The name that was probably meant by one that is not known."""
    return next(iter(difflib.get_close_matches(name, list(known), n=1)), None)


def meant(name: str, known: Iterable[str]) -> str:
    """What to write for a name that is not known: the one that is nearest, or some that there are."""
    names = list(known)
    if close := nearest(name, names):
        return f"did you mean `{close}`?"
    return f"use one of: {', '.join(sorted(names)[:SHOWN_NAMES])}" + (", ..." if len(names) > SHOWN_NAMES else "")


def unknown_host(name: str, known: Iterable[str], where: str) -> GavotteError:
    """The error for a host that is not there.

    Args:
        name: as the user wrote it.
        known: the hosts that there are.
        where: what has them: "the network".
    """
    return GavotteError(f"{where} has no host `{name}`", hint=meant(name, known))


def check_known(name: str, known: Collection[str], *, field: str, what: str) -> None:
    """Refuses a reference to something that the file does not define.

    Args:
        name: the reference.
        known: the defined names.
        field: where the reference stands.
        what: what it should name, for the message.
    """
    if name not in known:
        names = list(known)
        raise problem(f"`{name}` is not a {what}", meant(name, names) if names else f"add a {what}", field=field)


def check_tree(kind: str, parents: Mapping[str, str | None], *, single_root: bool) -> None:
    """Refuses parents that form a circle, or several roots where one is wanted.

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
