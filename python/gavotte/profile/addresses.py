"""Which task an address belongs to: from a hosts file, an inventory, or `NAME=ADDRESS` on the command line.

The mapping goes from address to task, so that a task may have several addresses (two interfaces, IPv4 and IPv6).
Its order is the order of the tasks in the App: write the hosts of an MPI job in the order of their ranks.
"""

from __future__ import annotations

import ipaddress
from pathlib import Path

from gavotte.errors import FormatError, GavotteError
from gavotte.formats.inventory import read_inventory
from gavotte.formats.reading import read_text


def canonical(address: str) -> str:
    """Writes an IP literal in its shortest form; an IPv4 address mapped into IPv6 becomes IPv4.

    Raises:
        ValueError: when it is no IP literal.
    """
    parsed = ipaddress.ip_address(address.partition("%")[0])
    return str(getattr(parsed, "ipv4_mapped", None) or parsed)


def parse_task(text: str) -> tuple[str, str]:
    """Reads `NAME=ADDRESS` as the pair (address, name).

    Raises:
        GavotteError: when it is not of that form.
    """
    name, separator, address = text.rpartition("=")
    try:
        if not (name and separator):
            raise ValueError
        return canonical(address), name
    except ValueError:
        raise GavotteError(f"{text!r} does not name a task", hint="write NAME=ADDRESS, as rank-0=10.0.0.1") from None


def read_addresses(path: str | Path) -> dict[str, str]:
    """Reads the addresses of the tasks, in the file's order.

    A `*.toml` is an inventory, and each of its hosts a task. Any other file has the form of `/etc/hosts`:
    a line has an address and a name, further names are ignored, `#` starts a comment.

    Returns:
        Address to task name.

    Raises:
        FormatError: naming the line and the remedy.
    """
    if Path(path).suffix == ".toml":
        return {canonical(host.address): host.name for host in read_inventory(path).host}
    tasks: dict[str, str] = {}
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        where = f"line {number}"
        if len(words) < 2:
            raise FormatError(str(path), where, f"{words[0]!r} has no name", "write an address and a name")
        try:
            address = canonical(words[0])
        except ValueError:
            raise FormatError(str(path), where, f"{words[0]!r} is not an IP address", "write an IP literal") from None
        if tasks.get(address, words[1]) != words[1]:
            problem = f"{address} is already {tasks[address]!r}"
            raise FormatError(str(path), where, problem, "give each task an address of its own")
        tasks[address] = words[1]
    if not tasks:
        raise FormatError(str(path), "", "names no address", "write lines of an address and a name")
    return tasks
