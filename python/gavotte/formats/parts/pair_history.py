"""Snapshots of some pairs of many hosts: arrays with one column for each pair, and no N x N matrix."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gavotte.formats.parts.counting import counted
from gavotte.formats.parts.evidence import Evidence
from gavotte.formats.parts.history_arrays import BY_SNAPSHOT, BY_TCP, ByTcp, Floats, Ints
from gavotte.formats.parts.lengths import Lengths
from gavotte.formats.parts.names import left_after


@dataclass(frozen=True)
class PairHistory:
    """Snapshots in time order, of the pairs of which anything is known.

    Attributes:
        hosts: N names.
        time_s: (n,) Unix time at the start of each snapshot.
        pairs: (P, 2) source and target of each pair, ascending.
        values: the arrays of a History by name, with the axis of pairs in place of both axes of hosts: (n, P), or (P,)
            and (P, H) for those without one of snapshots. `alpha_s` and `beta_Bps` are always there.
        lengths: path lengths of all pairs, as far as they are known; those of `values["hops"]` come first.
        cpus: (N,) cores of each host.
        memory_bytes: (N,) memory of each host, 0 = unknown.
        method: how it was measured.
        evidence: what pairs carried at the same time.
        ipv6: (N,) as in a History.
    """

    hosts: tuple[str, ...]
    time_s: Floats
    pairs: Ints
    values: Mapping[str, npt.NDArray[Any]]
    lengths: Lengths
    cpus: Floats
    memory_bytes: Ints
    method: str = ""
    evidence: tuple[Evidence, ...] = ()
    ipv6: npt.NDArray[np.bool_] | None = None

    def __repr__(self) -> str:
        """Return what it is in one line."""
        return (
            f"<PairHistory: {counted(self.snapshots, 'snapshot')} of {counted(len(self.hosts), 'host')}, "
            f"{self.answered} paths measured by {self.method or 'an unknown method'}>"
        )

    @property
    def snapshots(self) -> int:
        """Number of snapshots."""
        return len(self.time_s)

    @property
    def alpha_s(self) -> Floats:
        """(n, P) one-way latency in seconds; NaN = not measured."""
        return self.values["alpha_s"]

    @property
    def beta_Bps(self) -> Floats:  # noqa: N802 - the file format's key, unit included
        """(n, P) bulk TCP goodput in bytes/s; NaN = not measured."""
        return self.values["beta_Bps"]

    @property
    def answered(self) -> int:
        """Number of directed pairs with at least one bandwidth value."""
        return int(np.isfinite(self.beta_Bps).any(axis=0).sum())

    def over_ipv6(self) -> npt.NDArray[np.bool_]:
        """(N,) `ipv6`, False where it is unknown."""
        return np.zeros(len(self.hosts), dtype=np.bool_) if self.ipv6 is None else self.ipv6

    def measured_by_tcp(self, why: ByTcp) -> list[tuple[int, int]]:
        """Return the (source, target) indices that bulk TCP measured for this reason in any snapshot, in order."""
        if "by_tcp" not in self.values:
            return []
        chosen = (self.values["by_tcp"] == BY_TCP.index(why)).any(axis=0)
        return [(i, j) for i, j in self.pairs[chosen].tolist()]

    def lacks(self, other: PairHistory) -> int:
        """Return the number of directed pairs for which another one has a rate and this one has none."""
        return len(other._known() - self._known())

    def _known(self) -> set[tuple[str, str]]:
        known = self.pairs[np.isfinite(self.beta_Bps).any(axis=0)]
        return {(self.hosts[i], self.hosts[j]) for i, j in known.tolist()}

    def without(self, hosts: Collection[str]) -> PairHistory:
        """Return the same snapshots without some hosts, and without every experiment in which those took part.

        Raises:
            GavotteError: for a host that it does not have, or when none is left.
        """
        return self._of_hosts(left_after(self.hosts, hosts)) if hosts else self

    def _of_hosts(self, left: Sequence[int]) -> PairHistory:
        """Return the part of some hosts, in ascending order, with the experiments among them."""
        number = np.full(len(self.hosts), -1)
        number[list(left)] = np.arange(len(left))
        kept = self.only(np.asarray((number[self.pairs] >= 0).all(axis=1)))
        names = {self.hosts[i] for i in left}
        clusters = {length: of[list(left)] for length, of in self.lengths.clusters.items()}
        return replace(
            self,
            hosts=tuple(self.hosts[i] for i in left),
            pairs=number[kept.pairs],
            values=kept.values,
            lengths=Lengths.of_clusters(len(left), clusters),
            cpus=self.cpus[list(left)],
            memory_bytes=self.memory_bytes[list(left)],
            evidence=tuple(
                each for each in self.evidence if all(host in names for pair in each.pairs for host in pair)
            ),
            ipv6=None if self.ipv6 is None else self.ipv6[list(left)],
        )

    def only(self, which: npt.NDArray[np.bool_]) -> PairHistory:
        """Return the same hosts with some of the pairs; `which` is (P,)."""
        values = {key: array[:, which] if key in BY_SNAPSHOT else array[which] for key, array in self.values.items()}
        return replace(self, pairs=self.pairs[which], values=values)

    def paths(self) -> Lengths:
        """Return the lengths of all paths: those of `hops`, and where there are none, those of `lengths`."""
        known = Lengths.of_clusters(len(self.hosts), self.lengths.clusters)
        hops = self.values.get("hops", np.zeros(len(self.pairs), dtype=np.int64))
        for (i, j), length in zip(self.pairs[hops > 0].tolist(), hops[hops > 0].tolist(), strict=True):
            known.note((i, j), max(length, known.noted((i, j))))
        known.drop_shown(known.single)
        return known

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays of pairs by the keys of a file."""
        clusters = self.lengths.clusters
        shown = (
            {} if not clusters else {"lengths": np.array(list(clusters)), "clusters": np.stack([*clusters.values()])}
        )
        return {"pairs": self.pairs, **self.values, **shown}

    def matrix(self, key: str) -> npt.NDArray[Any]:
        """Return an array with both axes of hosts, in which other pairs are unknown: NaN, 0 or an empty text."""
        size = len(self.hosts)
        if key == "hops":
            whole: npt.NDArray[Any] = self.lengths.matrix()
            hops = self.values.get("hops", np.zeros(len(self.pairs), dtype=np.int64))
            source, target = self.pairs[hops > 0].T
            whole[source, target] = hops[hops > 0]
            return whole
        values = self.values[key]
        source, target = self.pairs.T
        if key in BY_SNAPSHOT:
            empty = np.nan if values.dtype.kind == "f" else 0
            whole = np.full((self.snapshots, size, size), empty, dtype=values.dtype)
            whole[:, source, target] = values
            return whole
        whole = np.zeros((size, size, *values.shape[1:]), dtype=values.dtype)
        whole[source, target] = values
        return whole
