"""Read the hosts of an MPI hostfile, in Open MPI's or MPICH's syntax.

Open MPI: `node1 slots=4 max_slots=8`; a line without `slots` counts one. MPICH, Intel MPI: `node1:4`. The lines of a
host that is listed several times are summed. `#` starts a comment.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from gavotte.agents.sources.assembly import MAX_HOSTS, Found, assemble
from gavotte.errors import FormatError
from gavotte.formats.files.reading import read_text
from gavotte.formats.inventory import Inventory

_SLOTS = {"slots", "slot", "cpus", "cpu", "count"}
_MOST = {"max_slots", "max-slots", "slots_max", "slots-max", "max_cpus", "max-cpus", "cpus_max", "cpus-max"}
_USERS = {"username", "user-name", "user_name", "user"}
_IGNORED = {"binding", "ifname", "map", "rank", "sockets", "socket", "cores"}
_REMEDY = 'write "HOST slots=N" or "HOST:N"'
_PLACE = re.compile(r"(?:(\w[\w.+-]*)@)?(\[[0-9A-Fa-f:.]+\]|\w[\w.-]*)(?::([0-9]+))?", re.ASCII)
MAX_SLOTS = 1_000_000


@dataclass(frozen=True)
class Entry:
    """One host of a hostfile.

    Attributes:
        host: name or address.
        line: the line of its first mention.
        slots: number of processes that it accepts in total.
        user: login name.
    """

    host: str
    line: int
    slots: int
    user: str | None = None


def from_mpi(path: str | Path) -> Inventory:
    """Read a hostfile; slots become cpus.

    Raises:
        FormatError: naming file, line and remedy.
    """
    entries = parse_hostfile(read_text(path), str(path))
    hosts = [Found(e.host, e.host, f"line {e.line}", user=e.user, cpus=float(e.slots)) for e in entries]
    return assemble(str(path), hosts)


def parse_hostfile(text: str, path: str) -> list[Entry]:
    """Parse a hostfile's text. Return its hosts in the order of their first mention.

    Raises:
        FormatError: naming file, line and remedy.
    """
    entries: dict[str, Entry] = {}
    for number, line in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        content = re.sub(r"\s*=\s*", "=", line.partition("#")[0]).split()
        if not content:
            continue
        entry = _entry(content, number, path)
        before = entries.get(entry.host)
        if before is None:
            entries[entry.host] = entry
        else:
            entries[entry.host] = replace(
                before, slots=_counted(before.slots + entry.slots, number, path), user=before.user or entry.user
            )
        if len(entries) > MAX_HOSTS:
            raise FormatError(path, f"line {number}", f"names more than {MAX_HOSTS} hosts", "use fewer")
    return list(entries.values())


def _entry(content: list[str], number: int, path: str) -> Entry:
    where = f"line {number}"
    place = _PLACE.fullmatch(content[0])
    if not place:
        raise FormatError(path, where, f"`{content[0][:60]}` is not a host", _REMEDY)
    slots: str | None = place[3]
    most: str | None = None
    user: str | None = place[1]
    for word in content[1:]:
        key, mark, value = word.partition("=")
        key = key.lower()
        if not mark or not value or key not in _SLOTS | _MOST | _USERS | _IGNORED:
            raise FormatError(path, where, f"`{word[:60]}` is not a hostfile setting", _REMEDY)
        if key in _SLOTS:
            if slots is not None:
                raise FormatError(path, where, "gives the slots twice", _REMEDY)
            slots = value
        elif key in _MOST:
            most = value
        elif key in _USERS:
            user = value
    for number_text in (slots, most):
        if number_text is not None and not re.fullmatch("[0-9]{1,9}", number_text):
            raise FormatError(path, where, f"`{number_text[:60]}` is not a number of slots", _REMEDY)
    # In Open MPI a maximum without a number of slots is also that number.
    count = int(slots or most or 1)
    if most is not None and int(most) < count:
        raise FormatError(path, where, f"has {count} slots, but at most {int(most)}", "correct one of them")
    return Entry(place[2].strip("[]"), number, _counted(count, number, path), user)


def _counted(slots: int, number: int, path: str) -> int:
    if not 0 < slots <= MAX_SLOTS:
        raise FormatError(path, f"line {number}", f"makes the number of slots {slots}", f"use 1 to {MAX_SLOTS}")
    return slots
