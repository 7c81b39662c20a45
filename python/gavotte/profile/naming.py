"""Names of tasks by address, rank or other identifier, from a file, an inventory, or `NAME=ADDRESS`.

The mapping goes from the identifier to the task, so that a task may have several addresses (two interfaces, IPv4 and
IPv6). Its order is the order of the tasks in the App: write the hosts of an MPI job in the order of their ranks.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gavotte.agents import with_addresses
from gavotte.errors import FormatError, GavotteError
from gavotte.formats.files.reading import read_text
from gavotte.formats.inventory import read_inventory, without_zone


@dataclass(frozen=True)
class Names:
    """Kind of identifier that a source has for tasks, such as an IP address or a rank.

    Attributes:
        kind: its name in messages, as `address`.
        what: the same with an article, as `an IP address`.
        remedy: hint in messages on what to write.
        canonical: function that returns an identifier's canonical form. It raises ValueError for other text.
    """

    kind: str
    what: str
    remedy: str
    canonical: Callable[[str], str]


def canonical_address(text: str) -> str:
    """Return the shortest form of an address with or without port; an IPv4 address mapped into IPv6 becomes IPv4.

    The text is an IP literal, one with a port (`10.0.0.1:7077`, `[fd00::1]:7077`), or a port of any address (`*:7077`).

    Raises:
        ValueError: when the text is none of these.
    """
    host, separator, port = text.rpartition(":")
    if separator and (host == "*" or host.count(":") == 0 or (host.startswith("[") and host.endswith("]"))):
        if not (port.isascii() and port.isdigit() and int(port) < 1 << 16):
            raise ValueError
        address = host if host == "*" else canonical_address(host.removeprefix("[").removesuffix("]"))
        return f"[{address}]:{int(port)}" if ":" in address else f"{address}:{int(port)}"
    parsed = ipaddress.ip_address(text.partition("%")[0])
    return str(getattr(parsed, "ipv4_mapped", None) or parsed)


def canonical_process(text: str) -> str:
    """Return the canonical form of text that names a process, rank, container, cgroup or address.

    Raises:
        ValueError: when the text names none of these.
    """
    kind, separator, what = text.partition(":")
    bare = kind.rpartition("/")[2]
    if separator and bare in ("pid", "rank", "container", "cgroup"):
        if not what or (bare in ("pid", "rank") and not what.isdigit()):
            raise ValueError
        return f"{kind}:{what[:12]}" if bare == "container" else text
    try:
        return canonical_address(text)
    except ValueError:
        if not text or ":" in text or not text.isprintable():
            raise
        return text


def canonical_end(text: str) -> str:
    """Return the canonical form of an address (see `canonical_address`), or a pod `NAMESPACE/POD` unchanged.

    Raises:
        ValueError: when the text is neither.
    """
    namespace, separator, name = text.partition("/")
    return text if separator and namespace and name else canonical_address(text)


def _canonical_rank(text: str) -> str:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise ValueError
    return str(int(text))


address = Names("address", "an IP address", "use an IP address, alone or with a port", canonical_address)


def _canonical_executor(text: str) -> str:
    if not text or not text.isprintable():
        raise ValueError
    return text


executor = Names("executor", "an executor's ID or host", "use one without blanks", _canonical_executor)
process = Names(
    "process", "a process or an address", "use a name, pid:NUMBER, rank:NUMBER, or an address", canonical_process
)
pod = Names("address", "an IP address or a pod", "use an IP address or NAMESPACE/POD", canonical_end)
rank = Names("rank", "a rank", "write a number from 0", _canonical_rank)


def parse_task(text: str, names: Names = address) -> tuple[str, str]:
    """Parse `NAME=ADDRESS` into the pair (address, name).

    Raises:
        GavotteError: when the text does not have that form.
    """
    name, separator, key = text.rpartition("=")
    try:
        if not (name and separator):
            raise ValueError
        return names.canonical(key), name
    except ValueError:
        example = "rank-0=10.0.0.1" if names is address else f"worker={names.canonical('0')}"
        form = f"use e.g. {example}"
        raise GavotteError(f"`{text}` does not name a task", hint=form) from None


def read_tasks(path: str | Path, names: Names = address) -> dict[str, str]:
    """Read the task names of addresses from a file, in the file's order.

    A `*.toml` is an inventory, and each of its hosts a task. Any other file has the form of `/etc/hosts`. A line has an
    address (or the source's other identifier of a task) and a name. Further names are ignored, `#` starts a comment.

    Returns:
        Task name by address.

    Raises:
        FormatError: when the file is damaged or names no task; the error names the line and the remedy.
    """
    if names.kind in (address.kind, process.kind) and Path(path).suffix == ".toml":
        hosts = with_addresses(read_inventory(path)).host
        return {names.canonical(without_zone(host.address)): host.name for host in hosts}
    tasks: dict[str, str] = {}
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        where = f"line {number}"
        if len(words) < 2:
            raise FormatError(str(path), where, f"`{words[0]}` has no name", f"use {names.what} and a name")
        try:
            key = names.canonical(words[0])
        except ValueError:
            raise FormatError(str(path), where, f"`{words[0]}` is not {names.what}", names.remedy) from None
        if tasks.get(key, words[1]) != words[1]:
            problem = f"{key} is already `{tasks[key]}`"
            raise FormatError(str(path), where, problem, "use a different one for each task")
        tasks[key] = words[1]
    if not tasks:
        raise FormatError(str(path), "", f"names no {names.kind}", f"use lines of {names.what} and a name")
    return tasks
