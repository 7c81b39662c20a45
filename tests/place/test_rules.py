"""Every method that can plan keeps every constraint, and contradictions are named."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from tests.place.clouds import cloud, ring

from gavotte.errors import GavotteError, InfeasibleError
from gavotte.place import evaluate, place, select_hosts

PLANNING = ("optimal", "ilp", "search", "random", "round-robin", "min-machines")

RULES: list[dict[str, Any]] = [
    {"apart": [["a", "b", "c"]]},
    {"together": [["a", "d"], ["b", "e"]]},
    {
        "max_latency": [
            {"source": "a", "target": "b", "seconds": 0.001},
            {"source": "d", "target": "a", "seconds": 0.001},
        ]
    },
    {"max_hosts": 3},
    {"pin": {"a": "vm3", "b": "vm0"}, "apart": [["b", "c"]], "together": [["a", "f"]], "max_hosts": 4},
]


@pytest.mark.parametrize("rules", RULES, ids=lambda rules: "+".join(rules))
@pytest.mark.parametrize("method", PLANNING)
def test_constraints_are_planned_for(rules: dict[str, Any], method: str) -> None:
    placement = place(cloud(), [ring(**rules)], method, time_limit_s=5.0)
    given = evaluate(cloud(), [ring(**rules)], placement.assignment)  # refuses what breaks a rule
    assert given.completion_s == placement.completion_s


@pytest.mark.slow
@pytest.mark.parametrize("rules", [{}, *RULES], ids=lambda rules: "+".join(rules) or "none")
@pytest.mark.parametrize("sharing", ["hose", "pipe"])
def test_optimal_is_the_best_of_all_assignments(rules: dict[str, Any], sharing: str) -> None:
    network = cloud(3, cpus=2.0 if "max_hosts" not in rules or "pin" in rules else 3.0)
    network = network.model_copy(update={"rate_bps": [[None, 9e6, 5e6], [7e6, None, 8e6], [6e6, 4e6, None]]})
    rules = {**rules, "pin": {"b": "vm0"}} if "pin" in rules else rules
    app = ring(**{key: value for key, value in rules.items() if key != "max_hosts"} | {"max_hosts": 3})
    times = []
    for hosts in product(network.names, repeat=6):
        try:
            times.append(
                evaluate(network, [app], dict(zip("abcdef", hosts, strict=True)), sharing=sharing).completion_s
            )
        except InfeasibleError:
            continue
    for method in ("optimal", "ilp"):
        placement = place(network, [app], method, sharing=sharing, time_limit_s=20.0)
        assert placement.completion_s == pytest.approx(min(times), rel=1e-6)
        assert placement.optimal, method


@pytest.mark.parametrize("method", [*PLANNING, "auto", "greedy"])
def test_more_than_all_hosts_have_is_told_before_any_search(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gavotte.place.placing.run_method", None)
    with pytest.raises(InfeasibleError, match=r"6 tasks need 6 cpus and 2 hosts have 4 .*; add hosts"):
        place(cloud(2), [ring()], method)
    heavy = ring()
    heavy = heavy.model_copy(
        update={"task": [task.model_copy(update={"memory_bytes": 3 << 30}) for task in heavy.task]}
    )
    small = cloud(3)
    hosts = [host.model_copy(update={"memory_bytes": 4 << 30}) for host in small.hosts]
    with pytest.raises(InfeasibleError, match=r"6 tasks need 19\.3 GB of memory and 3 hosts have 12\.9 GB"):
        place(small.model_copy(update={"hosts": hosts}), [heavy], method)


@pytest.mark.parametrize("store", ["memory", "storage"])
def test_memory_and_storage_are_planned_for_like_cores(store: str) -> None:
    network = cloud(3)
    roomy = [host.model_copy(update={f"{store}_bytes": 10}) for host in network.hosts]
    app = ring("abc")
    needy = app.model_copy(update={"task": [task.model_copy(update={f"{store}_bytes": 6}) for task in app.task]})
    for method in PLANNING:
        placement = place(network.model_copy(update={"hosts": roomy}), [needy], method, time_limit_s=5.0)
        assert len(set(placement.assignment.values())) == 3


def test_what_does_not_fit_is_told_in_units_people_read() -> None:
    network = cloud(1)
    network = network.model_copy(
        update={"hosts": [network.hosts[0].model_copy(update={"storage_bytes": 50_000_000_000})]}
    )
    app = ring("a")
    big = app.model_copy(
        update={"task": [app.task[0].model_copy(update={"storage_bytes": 70_866_960_384})], "transfer": []}
    )
    with pytest.raises(InfeasibleError, match=r"70\.9 GB of storage(, more than any host|, and 1 host | and 1 host )"):
        place(network, [big], time_limit_s=5.0)


def test_labels_and_patterns_choose_hosts() -> None:
    network = cloud()
    zones = ["a", "a", "b", "b"]
    hosts = [
        host.model_copy(update={"labels": {"zone": zone}}) for host, zone in zip(network.hosts, zones, strict=True)
    ]
    network = network.model_copy(update={"hosts": hosts})
    allowed = select_hosts(network, [ring()], only=[("[a-c]", ["vm1", "vm2"])], labels=[("a", "zone", "b")])
    assert allowed == {"a": ["vm2"], "b": ["vm1", "vm2"], "c": ["vm1", "vm2"]}
    placement = place(network, [ring()], allowed=allowed, time_limit_s=5.0)
    assert all(placement.assignment[task] in hosts for task, hosts in allowed.items())
    with pytest.raises(GavotteError, match="`x` matches no task"):
        select_hosts(network, [ring()], only=[("x", ["vm1"])])
    with pytest.raises(GavotteError, match="label `zone=c` leaves no host for task `a`"):
        select_hosts(network, [ring()], labels=[("a", "zone", "c")])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rules", "words"),
    [
        (
            {"apart": [["c", "d"], ["a", "b"]], "together": [["a", "b"]]},
            r"`apart\[1\]`, `together\[0\]` and task `a` contradict",
        ),
        (
            {"pin": {"a": "vm0", "b": "vm1"}, "together": [["a", "b"]]},
            r"`pin.a`, `pin.b` and `together\[0\]` contradict",
        ),
        (
            {"pin": {"a": "vm0", "b": "vm3"}, "max_latency": [{"source": "a", "target": "b", "seconds": 1e-3}]},
            ".*`max_latency.0.`",
        ),
        ({"max_hosts": 2}, r"`max_hosts`, task `a`"),
        (
            {"pin": {"a": "vm0", "b": "vm0", "c": "vm0"}},
            "`pin.a`, `pin.b` and `pin.c` contradict",
        ),
    ],
)
def test_contradiction_is_named_and_minimal(rules: dict[str, Any], words: str) -> None:
    for method in ("optimal", "search", "auto"):
        with pytest.raises(InfeasibleError, match=f"no placement exists: {words}") as raised:
            place(cloud(), [ring(**rules)], method, time_limit_s=5.0)
        assert "\n" not in str(raised.value)
        assert "apart[0]" not in str(raised.value), "what plays no part is not named"


def test_tasks_too_many_are_counted() -> None:
    words = "tasks `a`, .* and `e` need 1.5 cpus each or more, and 4 hosts have room for 4 such tasks"
    with pytest.raises(InfeasibleError, match=words):
        place(cloud(), [ring("abcde", cpus=1.5)], time_limit_s=5.0)
    with pytest.raises(InfeasibleError, match=r"task `a` needs 3 cpus, more than any host has free"):
        place(cloud(), [ring("a", cpus=3.0)], time_limit_s=5.0)
