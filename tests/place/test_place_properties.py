"""For any network and applications: capacity kept, time as defined, bound not above it."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from gavotte.errors import GavotteError, InfeasibleError
from gavotte.formats.app import App, Task, Transfer
from gavotte.formats.network import Group, Host, Network
from gavotte.formats.placement import Placement
from gavotte.place import place
from gavotte.place.exact.solution import PROVEN

FAST = ("search", "greedy", "random", "round-robin", "min-machines")
"""Methods without a solver's process, which takes too long to start for a hundred examples."""

SOLVED = ("optimal", "ilp")

rates = st.none() | st.integers(1, 1000).map(lambda rate: rate * 1e6)


@st.composite
def networks(draw: st.DrawFn) -> Network:
    size = draw(st.integers(1, 5))
    names = [f"vm{m}" for m in range(size)]
    host = st.builds(
        Host,
        name=st.just("x"),
        cpus=st.integers(1, 8).map(float),
        machine=st.sampled_from([None, None, "pm0"]),
        egress_bps=rates,
        ingress_bps=rates,
    )
    members = st.lists(st.sampled_from(names), min_size=1, unique=True)
    row = st.lists(rates, min_size=size, max_size=size)
    return Network(
        format="gavotte/network/1",
        hosts=[draw(host).model_copy(update={"name": name}) for name in names],
        rate_bps=draw(st.lists(row, min_size=size, max_size=size)),
        latency_s=[[None] * size] * size,
        groups=[
            Group(name=f"g{g}", members=draw(members), up_bps=draw(rates), down_bps=draw(rates))
            for g in range(draw(st.integers(0, 2)))
        ],
        sharing=draw(st.sampled_from(["hose", "pipe", "groups"])),
    )


@st.composite
def applications(draw: st.DrawFn) -> list[App]:
    names = [f"t{j}" for j in range(draw(st.integers(1, 8)))]
    transfer = st.builds(
        Transfer,
        source=st.sampled_from(names),
        target=st.sampled_from(names),
        bytes=st.integers(0, 10**9),
        phase=st.integers(0, 2),
    )
    cpus = st.integers(0, 4).map(float)
    return [
        App(
            format="gavotte/app/1",
            name=f"app{a}",
            task=[Task(name=name, cpus=draw(cpus)) for name in names],
            transfer=draw(st.lists(transfer, max_size=12)),
        )
        for a in range(draw(st.integers(1, 2)))
    ]


def completion_s(network: Network, apps: list[App], assignment: dict[str, str]) -> float:
    """The design's definition, from the nouns alone."""
    hosts = {host.name: host for host in network.hosts}
    at = {name: m for m, name in enumerate(network.names)}
    loads: defaultdict[int, Counter[tuple[str, ...]]] = defaultdict(Counter)
    rate: dict[tuple[str, ...], float | None] = {}
    known = [pair for i, row in enumerate(network.rate_bps) for j, pair in enumerate(row) if pair and i != j]
    unknown = min(known, default=float("inf")) / 2  # never treated as fast; no limit if no pair has a rate
    for app in apps:
        prefix = "" if len(apps) == 1 else f"{app.name}/"
        for transfer in app.transfer:
            m, n = assignment[prefix + transfer.source], assignment[prefix + transfer.target]
            if m == n:
                continue
            links: dict[tuple[str, ...], float | None] = {("pair", m, n): network.rate_bps[at[m]][at[n]] or unknown}
            near = hosts[m].machine is not None and hosts[m].machine == hosts[n].machine
            if network.sharing != "pipe" and not near:
                links["egress", m] = hosts[m].egress_bps
                links["ingress", n] = hosts[n].ingress_bps
            if network.sharing == "groups" and not near:
                for group in network.groups:
                    if m in group.members and n not in group.members:
                        links["up", group.name] = group.up_bps
                    if n in group.members and m not in group.members:
                        links["down", group.name] = group.down_bps
            for link in links:
                loads[transfer.phase][link] += transfer.bytes
            rate |= links
    phases = ([8 * size / (rate[link] or float("inf")) for link, size in load.items()] for load in loads.values())
    return sum(max(times, default=0.0) for times in phases)


def check(network: Network, apps: list[App], method: str, seed: int) -> Placement | None:
    try:
        placement = place(network, apps, method, seed=seed, time_limit_s=0.05)
    except InfeasibleError:
        return None
    except GavotteError as error:
        # Under `pipe` only the pairs' rates limit; otherwise a pair without a cap is unknown.
        assert ("no pair of hosts has a rate" if network.sharing == "pipe" else "does not say how fast") in str(error)
        assert not network.any_rate
        return None
    used: Counter[str] = Counter()
    for app in apps:
        for task in app.task:
            used[placement.assignment[task.name if len(apps) == 1 else f"{app.name}/{task.name}"]] += int(task.cpus)
    assert all(used[host.name] <= host.cpus for host in network.hosts)
    assert placement.completion_s == pytest.approx(completion_s(network, apps, placement.assignment))
    assert placement.bound_s <= placement.completion_s
    assert placement.optimal == (placement.completion_s <= placement.bound_s * (1 + PROVEN))
    return placement


@given(networks(), applications(), st.sampled_from(FAST), st.integers(0, 2**64 - 1))
def test_placement_is_feasible_and_its_time_is_the_definition(
    network: Network, apps: list[App], method: str, seed: int
) -> None:
    result, greedy = check(network, apps, method, seed), check(network, apps, "greedy", seed)
    if method == "search" and greedy is not None:
        assert result is not None
        assert result.completion_s <= greedy.completion_s


@given(networks(), applications(), st.integers(0, 2**64 - 1))
@examples(15)
def test_exact_models_agree_with_each_other(network: Network, apps: list[App], seed: int) -> None:
    optimal, ilp = (check(network, apps, method, seed) for method in SOLVED)
    search = check(network, apps, "search", seed)
    for one, other in ((optimal, ilp), (ilp, search)):
        if one is not None and other is not None:
            assert one.bound_s <= other.completion_s * (1 + 1e-5)
            assert other.bound_s <= one.completion_s * (1 + 1e-5)
    if optimal is not None and search is not None:
        assert optimal.completion_s <= search.completion_s
