"""Write host files for MPI launchers, in which rank i is task i of the Placement.

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
    """Return an Open MPI rankfile, with lines such as `rank 0=vm3 slot=0`.

    Slots are logical cores and count up on each host, in the order of ranks: each rank is bound to a core of its own.
    Open MPI refuses the file on a host with fewer cores than ranks. The format `openmpi-seq` binds nothing and runs
    there.
    """
    slots: Counter[str] = Counter()
    lines = []
    for rank, host in enumerate(_hosts(placement)):
        lines.append(f"rank {rank}={host} slot={slots[host]}")
        slots[host] += 1
    return _text(lines)


def one_line_a_rank(placement: Placement) -> str:
    """Return one host per line, in rank order, for Open MPI's `seq` mapper and `SLURM_HOSTFILE`."""
    return _text(_hosts(placement))


def hydra(placement: Placement) -> str:
    """Return MPICH's host file, in which `vm3:2` gets the next two ranks. A host may appear on several lines."""
    return _text([f"{host}:{len(list(ranks))}" for host, ranks in groupby(_hosts(placement))])


def crowded(placement: Placement, form: str, cpus: Mapping[str, float]) -> list[str]:
    """Return a warning for each host that gets more ranks than it has cores.

    Args:
        placement: the Placement whose ranks are counted.
        form: name of the format that is written.
        cpus: number of cores by host, for all hosts of the network.

    Raises:
        GavotteError: for a host that `cpus` does not have.
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
    """Return the host of each rank. Host names contain no characters that are special in these files."""
    return list(placement.assignment.values())


def _text(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
