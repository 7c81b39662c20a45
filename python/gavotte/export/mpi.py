"""Files of MPI launchers: rank i is the Placement's task i.

Checked by running Debian's Open MPI 4.1.4 and MPICH 4.0.2 across lab hosts (`tests/export`).
"""

from __future__ import annotations

from collections import Counter
from itertools import groupby

from gavotte.errors import GavotteError
from gavotte.formats.placement import Placement


def rankfile(placement: Placement) -> str:
    """An Open MPI 4 rankfile: `rank 0=vm3 slot=0`.

    Slots count up on each host, in the order of ranks: each rank has a core of its own. A host with fewer cores than
    ranks needs `hostfile-seq` instead, which binds nothing.
    """
    slots: Counter[str] = Counter()
    lines = []
    for rank, host in enumerate(_hosts(placement)):
        lines.append(f"rank {rank}={host} slot={slots[host]}")
        slots[host] += 1
    return _text(lines)


def one_line_a_rank(placement: Placement) -> str:
    """A host on each line, in the order of ranks: Open MPI's `seq` mapper, and `SLURM_HOSTFILE`."""
    return _text(_hosts(placement))


def hydra(placement: Placement) -> str:
    """MPICH's host file: `vm3:2` takes the next two ranks. A host may come again further down."""
    return _text([f"{host}:{len(list(ranks))}" for host, ranks in groupby(_hosts(placement))])


def _hosts(placement: Placement) -> list[str]:
    """The host of each rank.

    Raises:
        GavotteError: when a name would be read as something else.
    """
    for host in placement.assignment.values():
        if any(mark in host for mark in ":=# \t+") or not host:
            raise GavotteError(f"launchers cannot take `{host}` as a host's name", hint="rename it in the inventory")
    return list(placement.assignment.values())


def _text(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
