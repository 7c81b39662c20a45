"""Latencies for choosing an order of ranks: what two measurements of each round trip agree on.

The latency of a pair is half of a round trip. Both hosts measure it, at different times. On busy hosts, a round trip of
30 us may be read as anything up to 2 ms, since a process waits for its core. An order that is chosen by such noise
saves nothing: on sixteen equal hosts, the replay of LAMMPS preferred one by 12 %, which then took 5 % longer.

Both readings of a pair share the network and not the noise. Their correlation r therefore shows which part of the
spread is the network's: their mean has the reliability 2 r / (1 + r) (Spearman 1910, Brown 1910). Each mean is drawn
towards that of all alike pairs by the rest.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gavotte.formats.network import Network
from gavotte.tables import matrix

FEWEST_PAIRS = 6
"""Pairs of hosts in a tier, with both readings, from which on a correlation says anything."""

CERTAIN = 2.0
"""Standard errors by which a correlation must exceed 0."""

OUTLYING = 4.0
"""Robust standard deviations of the logarithm, from which on both readings of a pair show another path.

A host 40 ms away is an example. With noise alone, fewer than one of a million pairs are that far off in both."""

NORMAL_PER_MAD = 1.4826

_Floats = npt.NDArray[np.float64]


def steady_latencies(network: Network) -> Network:
    """Return the Network with latencies without the noise of single readings, the same in both directions.

    Pairs are alike if they have the same innermost group in common, or share a machine. Pairs with one reading, and
    tiers of few pairs, keep theirs.
    """
    if not network.latency_s:
        return network
    latency_s = matrix(network.latency_s)
    rows, columns = np.triu_indices(len(latency_s), 1)
    one, other = latency_s[rows, columns], latency_s[columns, rows]
    known = (one > 0) & (other > 0)
    tiers = np.array(_tiers(network, rows, columns))
    steady = latency_s.copy()
    for tier in np.unique(tiers[known]):
        alike = known & (tiers == tier)
        if alike.sum() < FEWEST_PAIRS:
            continue
        mean_s = np.exp(_steady(np.log(one[alike]), np.log(other[alike])))
        steady[rows[alike], columns[alike]] = steady[columns[alike], rows[alike]] = mean_s
    table = [[None if np.isnan(value) else float(value) for value in row] for row in steady]
    return network.model_copy(update={"latency_s": table})


def _steady(one: _Floats, other: _Floats) -> _Floats:
    """Return the mean of both readings of each pair, drawn towards that of all by what they do not agree on."""
    mean, middle = (one + other) / 2, float(np.median([one, other]))
    spread = NORMAL_PER_MAD * float(np.median(np.abs(np.array([one, other]) - middle)))
    usual = np.minimum(np.abs(one - middle), np.abs(other - middle)) <= OUTLYING * spread
    if usual.sum() < FEWEST_PAIRS:
        return mean
    centre = float(np.mean(mean[usual]))
    first, second = one[usual] - centre, other[usual] - centre
    variance = float(np.mean(first**2 + second**2)) / 2
    correlation = float(np.mean(first * second)) / variance if variance > 0 else 1.0
    least = CERTAIN / np.sqrt(usual.sum())
    agreed = max(correlation - least, 0.0) / (1 - least) if least < 1 else 0.0
    drawn = centre + 2 * agreed / (1 + agreed) * (mean - centre)
    return np.where(usual, drawn, mean)


def _tiers(network: Network, rows: npt.NDArray[np.intp], columns: npt.NDArray[np.intp]) -> list[str]:
    """Return what each pair of hosts has in common: a machine, the smallest group, or nothing."""
    groups = sorted(network.groups, key=lambda group: len(group.members))
    inside = {host: [group.name for group in groups if host in set(group.members)] for host in network.names}
    names, machines = network.names, [host.machine for host in network.hosts]
    tiers = []
    for i, j in zip(rows.tolist(), columns.tolist(), strict=True):
        if machines[i] is not None and machines[i] == machines[j]:
            tiers.append("machine")
            continue
        others = set(inside[names[j]])
        tiers.append(next((f"group {name}" for name in inside[names[i]] if name in others), ""))
    return tiers
