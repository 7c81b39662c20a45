"""Files of MPI launchers: rank i is the Placement's task i.

Checked by running Debian's Open MPI 4.1.4, MPICH 4.0.2 and Slurm 22.05 across lab hosts (`tests/export`). Open MPI 5
documents the same grammar for both of its files (PRRTE's `--map-by rankfile:file=` and `seq:file=`); it was not run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import groupby

from gavotte.formats.parts.names import unknown_host
from gavotte.formats.placement import Placement


def rankfile(placement: Placement) -> str:
    """An Open MPI rankfile: `rank 0=vm3 slot=0`.

    Slots are logical cores and count up on each host, in the order of ranks: each rank is bound to a core of its own.
    On a host with fewer cores than ranks Open MPI refuses that; `openmpi-seq` binds nothing and runs there.
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


def crowded(placement: Placement, form: str, cpus: Mapping[str, float]) -> list[str]:
    """Return a warning for each host that gets more ranks than it has cores.

    Args:
        placement: whose ranks.
        form: format that is written.
        cpus: cores of all hosts of the network.

    Raises:
        GavotteError: for a host that is not among them.
    """
    ranks = Counter(_hosts(placement))
    if strangers := sorted(ranks.keys() - cpus.keys()):
        raise unknown_host(strangers[0], cpus, "the network")
    remedy = "; use --format openmpi-seq, which does not bind ranks to cores" if form == "openmpi" else ""
    return [
        f"`{host}` gets {count} ranks and has {cpus[host]:g} cores{remedy}"
        for host, count in ranks.items()
        if count > cpus[host]
    ]


def _hosts(placement: Placement) -> list[str]:
    """The host of each rank. A host's name has none of the marks that these files know."""
    return list(placement.assignment.values())


def _text(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
