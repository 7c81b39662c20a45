"""Compute the rates of a Network that depend on the flows.

A host with a credit has a rate that depends on the bytes that it sends. A pair of hosts has one rate for one connection
and another for several.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from gavotte.formats.network import Network
from gavotte.simulate.flows import Flows
from gavotte.terms.credit import has_credit, with_credits
from gavotte.terms.loss import with_loss


def used_by(network: Network, flows: Flows) -> tuple[Network, Flows]:
    """Return the Network and the flows with the rates that these flows get.

    Args:
        network: Network whose hosts may have credits, and whose pairs may have rates for several connections.
        flows: flows of one TCP connection each.
    """
    if any(has_credit(host) for host in network.hosts):
        machines = np.array([host.machine or f"alone {at}" for at, host in enumerate(network.hosts)])
        leaves = machines[flows.source] != machines[flows.target]
        sent = np.bincount(flows.source[leaves], weights=flows.bytes[leaves], minlength=len(network.hosts))
        network = with_credits(network, sent.tolist())
    return capped_by_connection(network, flows)


def capped_by_connection(network: Network, flows: Flows) -> tuple[Network, Flows]:
    """Return a Network with the pairs' rates for several connections, and flows capped at the rate of one."""
    network = with_loss(network)
    if not network.several_differ:
        return network, flows
    one_bps = np.array([network.shared().pair_bps(m, n) or math.inf if m != n else math.inf for m, n in flows.pairs])
    cap_bps = one_bps if flows.cap_bps is None else np.minimum(flows.cap_bps, one_bps)
    return network.at_several(), replace(flows, cap_bps=cap_bps)
