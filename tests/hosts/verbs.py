"""Every verb that works on hosts or captures here, and what each restriction of hosts makes of it.

The matrix of docs/reference/privileges.md is made of this module: `python -m tests.hosts.verbs` prints it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.builders import network, placement
from tests.hosts.restricted import RestrictedHosts
from tests.hosts.restrictions import RESTRICTIONS
from tests.shell import GAVOTTE

Words = list[str | Path]

FILES = {
    "bytes.csv": "source,target,bytes\na,b,1000000\nb,a,1000000\n",
    "g.guarantee.toml": 'format = "gavotte/guarantee/1"\n'
    + "".join(f'[[guarantee]]\nhost = "{host}"\negress = "50mbit"\ningress = "50mbit"\n' for host in "ab"),
    "n.network.json": network(["a", "b"], 95e6, 1e-4).model_dump_json(),
    "sort.app.toml": 'format = "gavotte/app/1"\nname = "sort"\n[[task]]\nname = "x"\ncpus = 1.0\n[[task]]\nname = "y"\n'
    'cpus = 1.0\n[[transfer]]\nsource = "x"\ntarget = "y"\nbytes = 1000000\n',
    "sort.placement.json": placement({"x": "a", "y": "b"}, "sort").model_dump_json(),
    "s.campaign.toml": 'format = "gavotte/campaign/1"\nname = "s"\nrepetitions = 1\nseconds = 0.2\n'
    '[driver]\nkind = "ssh"\nhosts = "h.hosts.toml"\n'
    '[[scenario]]\nname = "pair"\nkind = "pair"\nsource = ["a"]\ntarget = ["b"]\n',
    "t.topology.toml": 'format = "gavotte/topology/1"\n[[switch]]\nname = "s"\n[[host]]\nname = "a"\nswitch = "s"\n',
}
"""Files that the verbs read, by name."""

READ_ONLY, FULL = "Read-only file system", "no space for the copy of"
LARGER = "give -o a folder on a larger disk"
WRITABLE = "give -o a folder that each receiver has, may write to and has room in"
NO_UDP = "UDP is not counted; counting it needs CAP_BPF and CAP_NET_ADMIN, and bpf() allowed by seccomp"
NET_ADMIN, NET_RAW = "its agent needs CAP_NET_ADMIN", "capturing needs CAP_NET_RAW"
STATIC = "static shares only: the kernel refuses BPF programs"
NO_NAMESPACES = "neither root nor user namespaces work here"
USERS = ("no capabilities", "an ordinary user", "a pod")
FILTERED = ("no bpf", *USERS)


@dataclass(frozen=True)
class Verb:
    """A verb, tried under each restriction.

    Attributes:
        title: its row in the matrix.
        words: returns its words, given the folder of files and the options that name the hosts.
        refused: by restriction, the texts of its one line of error. Under the others it works.
        limited: by restriction, what it says about the part that is missing, although it works.
        here: whether it works on this machine instead of on hosts.
        queued: whether `transfers serve` carries it out; the words are those of `transfers submit`.
    """

    title: str
    words: Callable[[Path, Words], Words]
    refused: dict[str, tuple[str, ...]]
    limited: dict[str, str]
    here: bool = False
    queued: bool = False

    def cell(self, restriction: str) -> str:
        """Return the matrix's entry."""
        return "no" if restriction in self.refused else "partly" if restriction in self.limited else "yes"


def verb(
    title: str,
    words: Callable[[Path, Words], Words],
    *,
    refused: dict[str, tuple[str, ...]] | None = None,
    limited: dict[str, str] | None = None,
    here: bool = False,
    queued: bool = False,
) -> Verb:
    """Return a verb that works under every restriction unless something else is given."""
    return Verb(title, words, refused or {}, limited or {}, here, queued)


def copies(folder: str) -> Callable[[Path, Words], Words]:
    """Return a broadcast into a folder of the receivers."""
    return lambda at, hosts: [
        "broadcast",
        at / "content",
        "--from",
        "a",
        "-o",
        f"{folder}/{at.name}-{{host}}",
        *hosts,
    ]


def queued_copies(folder: str) -> Callable[[Path, Words], Words]:
    """Return the same broadcast as an entry of a queue of transfers."""
    return lambda at, _hosts: [at / "content", "--from", "a", "--to", "b", "-o", f"{folder}/{at.name}-{{host}}"]


VERBS = (
    verb("measure", lambda at, hosts: ["measure", "-o", at / "h.npz", *hosts]),
    verb(
        "measure --method bulk",
        lambda at, hosts: ["measure", "--method", "bulk", "--seconds", "0.2", "-o", at / "b.npz", *hosts],
    ),
    verb("run", lambda at, hosts: ["run", at / "sort.placement.json", at / "sort.app.toml", *hosts]),
    verb("shuffle", lambda at, hosts: ["shuffle", at / "bytes.csv", *hosts]),
    verb(
        "broadcast into /tmp",
        copies("/tmp"),
        refused={
            "read-only root": (READ_ONLY, WRITABLE),
            "tiny folders": (FULL, LARGER),
            "nothing runs": (READ_ONLY, WRITABLE),
            "a pod": (READ_ONLY, WRITABLE),
        },
    ),
    verb(
        "broadcast into /dev/shm",
        copies("/dev/shm"),
        refused={"tiny folders": (FULL, LARGER), "a pod": (FULL, LARGER)},
    ),
    verb("transfers serve, a shuffle", lambda at, _hosts: [at / "bytes.csv"], queued=True),
    verb(
        "transfers serve, a broadcast into /tmp",
        queued_copies("/tmp"),
        refused={
            "read-only root": (READ_ONLY,),
            "tiny folders": (FULL,),
            "nothing runs": (READ_ONLY,),
            "a pod": (READ_ONLY,),
        },
        queued=True,
    ),
    verb("watch", lambda at, hosts: ["watch", at / "n.network.json", "--every", "0.1", "--count", "1", *hosts]),
    verb(
        "profile live",
        lambda _at, hosts: ["profile", "live", "--for", "0.5", *hosts],
        limited=dict.fromkeys(FILTERED, NO_UDP),
    ),
    verb("campaign run", lambda at, _hosts: ["campaign", "run", at / "s.campaign.toml", "-o", at / "r.jsonl"]),
    verb(
        "guarantee apply",
        lambda at, hosts: ["guarantee", "apply", at / "g.guarantee.toml", *hosts],
        refused=dict.fromkeys(USERS, (NET_ADMIN,)),
        limited={"no bpf": STATIC},
    ),
    verb(
        "guarantee status",
        lambda _at, hosts: ["guarantee", "status", *hosts],
        limited={"no bpf": STATIC, **dict.fromkeys(USERS, "its agent enforces no guarantees")},
    ),
    verb(
        "profile pcap --interface",
        lambda _at, _hosts: ["profile", "pcap", "--interface", "lo", "--for", "0.5"],
        refused=dict.fromkeys(USERS, ("tcpdump cannot capture on lo", NET_RAW)),
        here=True,
    ),
    verb(
        "lab",
        lambda at, _hosts: ["lab", "run", at / "t.topology.toml", "--", GAVOTTE, "hosts", "list", "--hosts", "lab"],
        refused={
            "no bpf": (NO_NAMESPACES, "a system call filter may forbid them"),
            "no capabilities": (NO_NAMESPACES, "root lacks CAP_SYS_ADMIN"),
            "a pod": (NO_NAMESPACES, "seccomp may forbid them"),
        },
        here=True,
    ),
)
"""The verbs, in the order in which they are tried. A guarantee is applied before its status is asked for."""


def matrix() -> str:
    """Return the table of the documentation: a row a verb, a column a restriction."""
    rows = [["", *RESTRICTIONS], ["---"] * (len(RESTRICTIONS) + 1)]
    rows += [[f"`{each.title}`", *map(each.cell, RESTRICTIONS)] for each in VERBS]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def write_files(hosts: RestrictedHosts) -> None:
    """Write the files that the verbs read."""
    for name, text in FILES.items():
        (hosts.place / name).write_text(text)


if __name__ == "__main__":
    print(matrix(), end="")
