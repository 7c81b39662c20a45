"""Network conditions of public clouds, as topologies of a lab, with their true values."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gavotte.formats.topology import FORMAT, Topology

EGRESS_BPS = {"a": 40e6, "b": 60e6, "c": 50e6}
"""Wire rates of the hosts that every condition has."""
INGRESS_BPS = 80e6
LASTING_S = 20.0
"""No host sends for this long at the receivers' rate under all verbs together."""
ETHERNET_BYTES = 14
TCP_BYTES = 20 + 12
"""Header with time stamps."""
IP_BYTES = {"ipv4": 20, "dual": 20, "ipv6": 40}


@dataclass(frozen=True)
class Condition:
    """One kind of network.

    Attributes:
        name: as the table shows it.
        host: keys that every host gets.
        far: keys that only host `a` gets, or the last of many.
        hosts: how many; beyond three they are like `c`.
        addresses: family of the lab.
        capped: whether the hosts have caps; False = links without a limit.
        blocked: transport protocol that host `a` does not accept; empty = none.
        burst_bytes: depth of the caps' buckets.
        sustain_s: time for which `measure` lets each host send afterwards; 0 = a default run.
    """

    name: str
    host: Mapping[str, Any] = field(default_factory=dict)
    far: Mapping[str, Any] = field(default_factory=dict)
    hosts: int = 3
    addresses: str = "ipv4"
    capped: bool = True
    blocked: str = ""
    burst_bytes: int = 32 << 10
    sustain_s: float = 0.0

    @property
    def names(self) -> list[str]:
        """Hosts in order."""
        return [chr(ord("a") + number) for number in range(self.hosts)]

    @property
    def description(self) -> dict[str, Any]:
        """The lab to build, as a topology file has it."""
        hosts = []
        for number, name in enumerate(self.names):
            keys: dict[str, Any] = {"name": name, "switch": "core", "cpus": 2.0, **self.host}
            if self.capped:
                # A deep bucket would hold for ingress, too, so the NIC limits what hosts with credit receive.
                limit = "rate" if self.has_credit else "ingress"
                keys |= {"egress": f"{_cap_bps(name):.0f}bit", limit: f"{INGRESS_BPS:.0f}bit"}
                keys |= {"burst": f"{self.burst_bytes}b"}
            if number == (0 if self.hosts == 3 else self.hosts - 1):
                keys |= self.far
            hosts.append(keys)
        family = {} if self.addresses == "ipv4" else {"addresses": self.addresses}
        return {"format": FORMAT, **family, "switch": [{"name": "core"}], "host": hosts}

    @property
    def topology(self) -> Topology:
        """The lab to build."""
        return Topology.model_validate(self.description)

    @property
    def has_credit(self) -> bool:
        """Whether hosts send at the NIC's rate for a second or more."""
        return 8 * self.burst_bytes >= INGRESS_BPS / 2

    def egress_bps(self, host: str) -> float:
        """Wire rate at which a host sends: its cap, or the receivers' while a credit lasts that no verb uses up."""
        lasting = 8 * self.burst_bytes >= LASTING_S * INGRESS_BPS
        return INGRESS_BPS if lasting else _cap_bps(host)

    @property
    def goodput_share(self) -> float:
        """TCP payload of a wire rate, by MTU and family."""
        mtu = int(self.host.get("mtu", 1500))
        return (mtu - IP_BYTES[self.addresses] - TCP_BYTES) / (mtu + ETHERNET_BYTES)

    @property
    def connections(self) -> tuple[int, ...]:
        """Numbers of TCP connections whose rate counts as a path's: one, or also several where nothing limits."""
        return (1,) if self.capped else (1, 4)

    @property
    def loss(self) -> float:
        """Largest share of packets that a path loses, both ways of its ends counted."""
        shares = sorted((float(keys.get("loss", 0.0)) for keys in (self.host, self.host, self.far)), reverse=True)
        return shares[0] + shares[1]

    @property
    def round_trip_s(self) -> float:
        """Longest round trip without queues."""
        own, far = (_seconds(keys.get("latency", "0s")) for keys in (self.host, {**self.host, **self.far}))
        return 2 * (far + own)

    @property
    def tolerance(self) -> float:
        """Allowed relative error of a rate."""
        return 0.03 if self.loss else 0.02

    @property
    def most_of_bound(self) -> float:
        """Allowed time of a transfer as a multiple of its lower bound: 1.10 up to 40 ms, 1.25 at 150 ms."""
        return 1.10 + 0.15 * min(1.0, max(0.0, (self.round_trip_s - 0.04) / 0.11))


def _cap_bps(host: str) -> float:
    return EGRESS_BPS.get(host, EGRESS_BPS["c"])


def _seconds(text: object) -> float:
    value = str(text)
    return float(value.removesuffix("ms")) / 1e3 if value.endswith("ms") else float(value.removesuffix("s"))


def _one_way(round_trip_ms: float) -> dict[str, str]:
    """Latency of every host such that a round trip between two takes this long."""
    return {"latency": f"{round_trip_ms / 4:g}ms"}


def conditions(seed: int) -> list[Condition]:
    """Return the 24 conditions, one of them with an option of `measure` as well; the last three are mixes drawn at random."""
    draw = random.Random(seed)
    plain = [
        Condition("plain"),
        *(Condition(f"mtu {mtu}", {"mtu": mtu}) for mtu in (1280, 1400, 1450, 9000)),
        *(Condition(f"{ms:g} ms", _one_way(ms)) for ms in (2, 10, 40, 150)),
        Condition("10 ms, jitter 1 ms", _one_way(10) | {"jitter": "1ms"}),
        Condition("40 ms, jitter 5 ms", _one_way(40) | {"jitter": "5ms"}),
        *(Condition(f"10 ms, loss {100 * loss:g} %", _one_way(10) | {"loss": loss / 2}) for loss in (1e-4, 1e-3, 1e-2)),
        Condition("policer", {"policer": True}, burst_bytes=256 << 10),
        Condition("credit of 1 s", burst_bytes=5_000_000),
        Condition("credit of 1 s, --sustain 4", burst_bytes=5_000_000, sustain_s=4.0),
        Condition("credit of 60 s", burst_bytes=300_000_000),
        Condition("unlimited", capped=False),
        Condition("ipv6", addresses="ipv6"),
        Condition("udp blocked", blocked="udp"),
        Condition("one of eight 80 ms away", far={"latency": "40ms"}, hosts=8),
    ]
    mixes = []
    for number in range(1, 4):
        keys: dict[str, Any] = {"mtu": draw.choice((1280, 1400, 1450, 1500)), **_one_way(draw.choice((0.2, 2, 10, 40)))}
        keys |= {"jitter": draw.choice(("0s", "1ms"))}
        if draw.random() < 0.5:
            keys["loss"] = draw.choice((1e-4, 1e-3)) / 2
        family = draw.choice(("ipv4", "ipv6", "dual"))
        message = ", ".join(
            [family, f"mtu {keys['mtu']}", f"latency {keys['latency']}", f"loss {keys.get('loss', 0):g}"]
        )
        mixes.append(Condition(f"mix {number}: {message}", keys, addresses=family))
    return [*plain, *mixes]
