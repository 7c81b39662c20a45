"""Let agents enforce guarantees, report how well they are kept, and end them."""

from __future__ import annotations

import hmac
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from ipaddress import ip_address
from typing import Any

from gavotte.agents import Budget, Fleet, Reach, enrolled, reaching
from gavotte.agents import agent_pb2 as pb
from gavotte.agents.greetings import narrow_path_warnings, narrow_paths
from gavotte.agents.neighbours import this_user
from gavotte.errors import AgentError, GavotteError
from gavotte.formats.guarantee import Guarantee, HostGuarantee
from gavotte.formats.inventory import Host, Inventory
from gavotte.formats.parts.names import unknown_host
from gavotte.formats.parts.rates import format_rate
from gavotte.formats.parts.routes import DATA_PORT, SshRoute

SHOWN = 8
"""Hosts that a message names."""

MODES = {"auto": pb.GUARD_MODE_AUTO, "ecn": pb.GUARD_MODE_ECN, "loss": pb.GUARD_MODE_LOSS}
MET = 0.95
"""Share of the windows of the last minute in which a guarantee must be met."""
LEAST_UNMET = 10
"""Fewest unmet windows that break a guarantee, 2 s. TCP needs some windows to start."""
AT_GUARANTEE = 1.1
"""A pair whose limit is at most this multiple of its guarantee could not use more than that for a while."""
UNLISTED = 0.05
"""Traffic from hosts outside the file is reported from this share of what a host may receive at least."""
UNLISTED_BPS = 1e6
"""Least such traffic that is reported."""
CHOICE = Budget(1_000_000, 60.0)
"""Most that finding addresses may spend. A greeting takes some hundred bytes, and its time limit is 2 s."""

REMAINS = {"nothing": pb.GUARD_REMAINS_NOTHING, "static": pb.GUARD_REMAINS_STATIC}


@dataclass(frozen=True)
class HostKept:
    """One host whose agent enforces its part, and that of its containers.

    Attributes:
        host: its name.
        device: the interface that is shaped.
        fixed: why no pair gets more than a static share; empty when pairs do.
        repaired: what other programs had changed on the interface, one line each. Its agent has built it again.
    """

    host: str
    device: str
    fixed: str
    repaired: tuple[str, ...] = ()


@dataclass(frozen=True)
class Applied:
    """Guarantees that agents enforce from now on.

    Attributes:
        hosts: each host whose agent took part, in the Guarantee's order.
        warnings: what they enforce less well than requested, one line each.
        missing: host to reason, for the hosts whose agents did not. They enforce what they enforced before.
    """

    hosts: list[HostKept]
    warnings: list[str]
    missing: dict[str, str] = field(default_factory=dict)


def warnings_of(guarantee: Guarantee, inventory: Inventory) -> list[str]:
    """Return what agents cannot enforce of a Guarantee, one line each."""
    guarantee = guarantee.spelled_as(inventory.names)
    unkept = [
        f"what {host} may receive is not kept: no other host of the file has an `egress`, so no sender is limited"
        for host in guarantee.unlimited_receivers
    ]
    named = {*guarantee.hosts, *guarantee.agents}
    if unnamed := [name for name in inventory.names if name not in named]:
        unkept.append(
            f"no guarantee limits what {_some(unnamed)} may send: over links that it shares with others, none of their "
            "guarantees is certain; name each host that sends, or keep it off these links"
        )
    shared = [
        f"{', '.join(hosts)} have the address {address}; pairs from hosts whose packets arrive from it "
        "have static guarantees"
        for address, hosts in sharing_addresses(guarantee, inventory).items()
    ]
    return [*unkept, *shared] + [
        f"agents enforce the guarantee of tenant `{tenant.name}`, not its limits"
        for tenant in guarantee.tenant
        if tenant.egress_limit is not None or tenant.ingress_limit is not None
    ]


def sharing_addresses(guarantee: Guarantee, inventory: Inventory) -> dict[str, list[str]]:
    """Return each address that several hosts of a Guarantee have in the inventory, with these hosts.

    Where packets of two hosts arrive from the same address, no agent can distinguish them, and pairs from them have
    static guarantees.
    """
    names = set(guarantee.spelled_as(inventory.names).agents)
    hosts: dict[str, list[str]] = {}
    for host in inventory.host:
        if host.name in names:
            for address in dict.fromkeys((host.address, *host.addresses)):
                hosts.setdefault(address, []).append(host.name)
    return {address: each for address, each in hosts.items() if len(each) > 1}


@dataclass(frozen=True)
class PairState:
    """One pair that was active since the guarantees were applied.

    Attributes:
        source: sending host.
        target: receiving host.
        guarantee_bps: its current share of both hoses, wire bit/s.
        limit_bps: the most that it may send now.
        rate_bps: the rate at which its bytes arrived recently; 0 when it is idle.
        met: share of the last minute's windows of 200 ms in which it had 95 % of its guarantee, or no bytes waited.
            Only windows with traffic count; None without any.
        marks: packets that were marked.
        lost: packets that were lost.
        why: what decides its limit.
        windows: number of windows that `met` counts.
    """

    source: str
    target: str
    guarantee_bps: float
    limit_bps: float
    rate_bps: float
    met: float | None
    marks: int
    lost: int
    why: str
    windows: int = 0

    @property
    def broken(self) -> bool:
        """Whether its guarantee was not met in the last minute, for 2 s or more."""
        if self.met is None:
            return False
        return self.met < MET and round((1 - self.met) * self.windows) >= LEAST_UNMET


@dataclass(frozen=True)
class GuardedHost:
    """One host, or a container with a guarantee.

    Attributes:
        host: its name.
        met: as `PairState.met`, over all pairs that it sends on; None when it has no guarantee or sent nothing.
        why: what is wrong, in one line; empty when nothing is.
        cpu_s: processor time that its agent has spent on guarantees.
        control_bytes: bytes that it has sent to other agents for guarantees.
        age_s: seconds since its guarantees were last changed.
        egress_bps: what it may send at least now, including its share of its tenant's guarantee; 0 = none.
        ingress_bps: what it may receive at least.
        unlisted_bps: what it has recently received from hosts that the guarantees do not name, wire bit/s.
    """

    host: str
    met: float | None
    why: str
    cpu_s: float = 0.0
    control_bytes: int = 0
    age_s: float = 0.0
    egress_bps: float = 0.0
    ingress_bps: float = 0.0
    unlisted_bps: float = 0.0


@dataclass(frozen=True)
class GuaranteeStatus:
    """Status of guarantees: how well each pair and each host is served.

    Attributes:
        pairs: those that were active, by source and target.
        hosts: those of the inventory, in its order, each followed by its containers.
    """

    pairs: tuple[PairState, ...]
    hosts: tuple[GuardedHost, ...]

    @property
    def broken(self) -> tuple[PairState, ...]:
        """Pairs whose guarantees were not met in the last minute."""
        return tuple(pair for pair in self.pairs if pair.broken)

    @property
    def warnings(self) -> list[str]:
        """What voids guarantees without an agent's fault, one line each."""
        return [
            f"{host.host} receives {format_rate(host.unlisted_bps)} from hosts that are not among the guarantees, and "
            "nothing limits them: add them, or no guarantee over the same links is certain"
            for host in self.hosts
            if host.unlisted_bps >= max(UNLISTED_BPS, UNLISTED * host.ingress_bps)
        ]

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as a dictionary for JSON."""
        pairs = [asdict(pair) | {"broken": pair.broken} for pair in self.pairs]
        return {"pairs": pairs, "hosts": [asdict(host) for host in self.hosts], "warnings": self.warnings}


def check_hosts(guarantee: Guarantee, inventory: Inventory) -> None:
    """Check that every host of a Guarantee is in the inventory, with an agent that outlives its controller.

    Raises:
        GavotteError: naming the host; or when agents would keep nothing, since no host has an `egress` or the file
            has only one host.
    """
    routes = {host.name: host.route for host in inventory.host}
    for host in guarantee.spelled_as(routes).agents:
        if host not in routes:
            raise unknown_host(host, routes, "the inventory")
        if isinstance(routes[host], SshRoute):
            raise GavotteError(
                f"the agent of `{host}` runs over SSH and ends with its controller, but guarantees must outlive it",
                hint="run `gavotte-agent serve --tls` on that host, see `gavotte hosts keys`",
            )
    _check_senders(guarantee.spelled_as(routes), inventory.names)
    _check_pairs(guarantee.spelled_as(routes), inventory.names)


def _check_pairs(guarantee: Guarantee, names: Sequence[str]) -> None:
    """Check that the file has a pair of hosts. A lone host's agent would only slow what that host sends to others."""
    if len(guarantee.guarantee) > 1:
        return
    own = guarantee.guarantee[0]
    others = _some([name for name in names if name not in guarantee.agents])
    raise GavotteError(
        f"nothing would be kept of what {own.host} may send: agents limit pairs of the file's hosts, "
        "and it has no other",
        hint="add each host that it sends to, or that shares links with it, as an entry of its own"
        + (f"; the inventory has {others}" if others else ""),
    )


def _check_senders(guarantee: Guarantee, names: Sequence[str]) -> None:
    """Check that agents have senders to limit. In the hose model, each may need what its receiver is guaranteed."""
    if guarantee.senders:
        return
    receiver = max(guarantee.guarantee, key=lambda each: each.ingress or 0.0)
    others = _some([name for name in names if name not in guarantee.agents])
    raise GavotteError(
        f"nothing would be kept of what {receiver.host} may receive: agents limit what senders with an `egress` send, "
        "and no host of the file has one",
        hint=f'give each host that sends to it an entry with `egress = "{(receiver.ingress or 0.0) / 1e6:g}mbit"`'
        + (f"; the inventory has {others}" if others else ""),
    )


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN]) + f" and {len(names) - SHOWN} more" * (len(names) > SHOWN)


def apply(
    guarantee: Guarantee,
    inventory: Inventory,
    *,
    fixed: bool = False,
    constants: Mapping[str, float] | None = None,
) -> Applied:
    """Let the agents of all hosts of a Guarantee enforce it from now on, in place of their present guarantees.

    If a host's agent does not answer, the others continue without it. Pairs to the host have static guarantees until it
    is back and the Guarantee is applied again.

    Args:
        guarantee: what to enforce. Agents enforce what tenants have at least, not the tenants' limits.
        inventory: the hosts' addresses and agents.
        fixed: no pair gets more than its guarantee (a static reservation).
        constants: the limiter's constants that differ from their defaults, by name.

    Returns:
        each host, and warnings.

    Raises:
        GavotteError: when no host takes part, or one refuses. In the latter case no host enforces anything; if
            guarantees were enforced before, the hosts that the message names keep those.
    """
    guarantee = guarantee.spelled_as(inventory.names)
    check_hosts(guarantee, inventory)
    names = set(guarantee.agents)
    part = inventory.model_copy(update={"host": [host for host in inventory.host if host.name in names]})
    with reaching(part) as roads:
        fleet = Fleet(part, roads)
        fleet.check()
        missing = {name: fleet.missing[name] for name in guarantee.agents if name in fleet.missing}
        if len(missing) == len(guarantee.agents):
            name, reason = next(iter(missing.items()))
            raise AgentError(f"nothing is changed, since no host of the file answers; {name}: {reason}")
        fleet.warn_of_quotas("its pairs may adapt late, and get less than their guarantees")
        before = {
            name for name, reply in fleet.guarded().items() if not isinstance(reply, AgentError) and reply.guarded
        }
        here = part.model_copy(update={"host": [host for host in part.host if host.name not in missing]})
        reached = _reached(here, roads)
        replies = fleet.guard(_requests(guarantee, fleet, reached, fixed=fixed, constants=constants or {}))
        refused = {name: reply for name, reply in replies.items() if isinstance(reply, AgentError)}
        if refused:
            if not before:
                fleet.unguard()
            name, error = next(iter(refused.items()))
            need = "; its agent needs CAP_NET_ADMIN" if "Operation not permitted" in error.message else ""
            raise AgentError(f"{name} cannot enforce its guarantee: {error}{need}", failure=error.failure)
        # A stalled connection uses no bandwidth, however much is guaranteed.
        greeting = Fleet(here, roads, purpose="check", shared=True)
        greeting.check()
        narrow = narrow_path_warnings(narrow_paths(greeting))
    hosts = []
    for name in guarantee.agents:
        if name in missing:
            continue
        reply = replies[name]
        assert not isinstance(reply, AgentError)
        hosts.append(HostKept(name, reply.device, reply.without_bpf, tuple(reply.repaired)))
    static = [f"{host.host}: static shares only: {host.fixed}" for host in hosts if host.fixed and not fixed]
    repaired = [
        f"another program had changed {host.device} of {host.host}, so its guarantees were not enforced: "
        f"{', '.join(host.repaired)}; its agent has built it again"
        for host in hosts
        if host.repaired
    ]
    absent = [
        f"{name}: {reason}; it keeps what it had, and pairs to it have static guarantees: apply again when it is back"
        for name, reason in missing.items()
    ]
    unkept = [
        f"{name} will not resume its guarantees after a restart: {reply.unkept}"
        for name, reply in replies.items()
        if not isinstance(reply, AgentError) and reply.unkept
    ]
    return Applied(hosts, fleet.warnings + static + repaired + unkept + absent + narrow, missing)


def _reached(part: Inventory, roads: Reach) -> dict[tuple[str, str], str]:
    """Return the address at which each host reaches each other one, where that is not `address`."""
    if not any(host.addresses for host in part.host):
        return {}
    with enrolled(part, CHOICE, purpose="guarantee", shared=True, reach=roads, direct=True) as fleet:
        own = {host.name: host.address for host in fleet.hosts}
        pairs = {(source, target): fleet.address(source, target) for source in own for target in own}
    return {pair: address for pair, address in pairs.items() if address != own[pair[1]]}


def _requests(
    guarantee: Guarantee,
    fleet: Fleet,
    reached: Mapping[tuple[str, str], str],
    *,
    fixed: bool,
    constants: Mapping[str, float],
) -> dict[str, pb.GuardRequest]:
    # No other host can name one that does not answer and whose name was not found.
    at = {host.name: (host.address, DATA_PORT) for host in fleet.inventory.host if _is_numeric(host.address)}
    at |= {host.name: (host.address, fleet.health[host.name].data_port) for host in fleet.hosts}
    known = [each for each in guarantee.guarantee if (each.on or each.host) in at]
    hoses = [_hose(each, at) for each in known]
    agents = [each.on or each.host for each in known]
    names = {each.host for each in known}
    tenants = [
        pb.GuardedTenant(
            name=each.name,
            hosts=[host for host in each.hosts if host in names],
            egress_bps=each.egress or 0.0,
            ingress_bps=each.ingress or 0.0,
        )
        for each in guarantee.tenant
    ]
    root = secrets.token_bytes(32)
    return {
        host.name: pb.GuardRequest(
            run_id=f"guarantee-{fleet.run_id}",
            key=secrets.token_bytes(32),
            self=host.name if host.name in guarantee.hosts else "",
            hosts=[
                _seen_from(host, hose, reached.get((host.name, hose.name), ""), _pair_key(root, host.name, agent))
                for hose, agent in zip(hoses, agents, strict=True)
            ],
            mode=MODES[guarantee.mode],
            fixed=fixed,
            user=this_user(),
            constants=[pb.Constant(name=name, value=value) for name, value in constants.items()],
            inside=[
                pb.GuardedInside(name=each.host, device=each.device or "", cgroup=each.cgroup or "")
                for each in guarantee.guarantee
                if each.on == host.name
            ],
            tenants=tenants,
            remains=REMAINS[guarantee.remains],
        )
        for host in fleet.hosts
    }


def _hose(own: HostGuarantee, at: Mapping[str, tuple[str, int]]) -> pb.GuardedHost:
    address, data_port = at[own.on or own.host]
    return pb.GuardedHost(
        name=own.host,
        address=own.address or address,
        data_port=data_port,
        egress_bps=own.egress or 0.0,
        ingress_bps=own.ingress or 0.0,
        egress_limit_bps=own.egress_limit or 0.0,
        ingress_limit_bps=own.ingress_limit or 0.0,
    )


def _is_numeric(address: str) -> bool:
    try:
        ip_address(address.partition("%")[0])
    except ValueError:
        return False
    return True


def _pair_key(root: bytes, one: str, other: str) -> bytes:
    """Return the key of two agents. Neither can derive another pair's key from it."""
    pair = json.dumps(sorted((one, other))).encode()
    return hmac.digest(root, pair, "sha256")


def _seen_from(host: Host, hose: pb.GuardedHost, reached: str, key: bytes) -> pb.GuardedHost:
    """Return an entry of the request for the agent of `host`: where it reaches that entry's host, and their key."""
    own = pb.GuardedHost(reached=reached, further=host.addresses if hose.name == host.name else [], key=key)
    own.MergeFrom(hose)
    return own


def status(inventory: Inventory) -> GuaranteeStatus:
    """Ask all agents of an inventory how well they keep their guarantees."""
    with reaching(inventory) as roads:
        fleet = Fleet(inventory, roads)
        fleet.check()
        replies = fleet.guarded()
        missing = dict(fleet.missing)
    pairs, hosts = [], []
    for host in inventory.host:
        reply = replies.get(host.name)
        if reply is None or isinstance(reply, AgentError):
            hosts.append(GuardedHost(host.name, None, missing.get(host.name) or f"its agent does not answer ({reply})"))
            continue
        for each in (reply, *reply.inside):
            pairs += [_pair(pair) for pair in each.pairs]
            hosts.append(_host(host.name if each is reply else each.self, each))
    return GuaranteeStatus(tuple(sorted(pairs, key=lambda pair: (pair.source, pair.target))), tuple(hosts))


def _host(name: str, reply: pb.GuardedReply) -> GuardedHost:
    return GuardedHost(
        name,
        _share(sum(pair.windows for pair in reply.pairs), sum(pair.unmet for pair in reply.pairs)),
        _why(reply),
        reply.cpu_s,
        reply.control_bytes,
        reply.age_s,
        reply.egress_bps,
        reply.ingress_bps,
        reply.unlisted_bps,
    )


def _pair(pair: pb.GuardedPair) -> PairState:
    met = _share(pair.windows, pair.unmet)
    numbers = pair.guarantee_bps, pair.limit_bps, pair.rate_bps
    return PairState(pair.source, pair.target, *numbers, met, pair.marks, pair.lost, pair.why, pair.windows)


def _share(windows: int, unmet: int) -> float | None:
    return 1.0 - unmet / windows if windows else None


def _why(reply: pb.GuardedReply) -> str:
    if not reply.guarded:
        return "its agent enforces no guarantees"
    causes = []
    if reply.error:
        causes.append(f"its guarantees are not enforced now: {reply.error}")
    if reply.repairs:
        changes = ", ".join(reply.repairs)
        causes.append(f"another program changed {reply.device}, and its agent built it again: {changes}")
    if reply.without_bpf:
        causes.append(f"static shares only: {reply.without_bpf}")
    causes += [
        f"packets of {', '.join(each.hosts)} have one address, {each.address}, and cannot be distinguished: "
        "pairs from these hosts have static guarantees"
        for each in reply.mixed
    ]
    if reply.silent:
        causes.append(f"pairs to silent agents have static guarantees: {', '.join(reply.silent)}")
    causes += [_shortage(pair) for pair in map(_pair, reply.pairs) if pair.broken]
    return "; ".join(causes)


def _shortage(pair: PairState) -> str:
    """Return how far a pair's guarantee is broken, and the likely cause."""
    assert pair.met is not None
    shortage = (
        f"less than the guarantee of {format_rate(pair.guarantee_bps)} reached {pair.target} in "
        f"{100 * (1 - pair.met):.0f} % of the windows in which bytes waited"
    )
    if pair.limit_bps > AT_GUARANTEE * pair.guarantee_bps:
        return f"{shortage} ({pair.why})"
    # Agents cannot reduce what the pair competes with below the sum of all guarantees.
    return f"{shortage}: a link on the way carries traffic that no guarantee limits, or less than the guarantees need"


@dataclass(frozen=True)
class Cleared:
    """Result of ending the guarantees.

    Attributes:
        devices: host to the interfaces on which something was removed.
        unreached: host to the reason, where no agent answered. Its agent resumes the guarantees when it starts again.
    """

    devices: dict[str, tuple[str, ...]]
    unreached: dict[str, str]


def clear(inventory: Inventory) -> Cleared:
    """End the guarantees of all agents of an inventory, and remove the limits that killed agents left behind."""
    with reaching(inventory) as roads:
        fleet = Fleet(inventory, roads)
        fleet.check()
        replies = fleet.unguard()
        missing = dict(fleet.missing)
    devices = {}
    for name, reply in replies.items():
        if isinstance(reply, AgentError):
            missing[name] = str(reply)
        elif reply.devices:
            devices[name] = tuple(dict.fromkeys(reply.devices))
    return Cleared(devices, missing)
