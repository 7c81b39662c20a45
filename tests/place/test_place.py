"""The front door: nouns in, Placement out, and one clear line if there is none."""

from __future__ import annotations

from typing import Any

import pytest
from tests import builders
from tests.builders import MB, MBIT

from gavotte import _core
from gavotte.errors import GavotteError, InfeasibleError
from gavotte.formats.app import App
from gavotte.formats.network import Network
from gavotte.formats.placement import Placement
from gavotte.place import (
    METHODS,
    Effort,
    Question,
    decide,
    evaluate,
    place,
)


def network(size: int = 3, *, rate_bps: float | None = 8 * MBIT, **fields: Any) -> Network:
    """Equal hosts of two cores, joined all to all."""
    latency_s = [[0.001 * (m + n) for n in range(size)] for m in range(size)]
    hosts = fields.pop("hosts", size)
    return builders.network(hosts, rate_bps, fields.pop("latency_s", latency_s), **{"cpus": 2.0} | fields)


def app(name: str = "sort", *, cpus: float = 1.0, tasks: str = "abc", **fields: Any) -> App:
    """One-letter tasks; the first sends 1 MB to each other one."""
    ways = [(tasks[0], task, MB) for task in tasks[1:]]
    return builders.app(name, *ways, tasks=tasks, cpus=cpus, **fields)


def test_greedy_joins_what_fits_and_names_the_bottleneck() -> None:
    placement = place(network(), [app()], "greedy")
    assert placement.assignment == {"a": "vm0", "b": "vm0", "c": "vm1"}
    assert placement.completion_s == pytest.approx(1.0)
    assert placement.bottleneck == "path from vm0 to vm1: 1.00 MB at 8.00 Mbit/s in phase 0"
    assert placement.apps == ["sort"]
    assert (placement.method, placement.seed) == ("greedy", 0)


def test_completion_at_its_bound_is_called_optimal() -> None:
    egress = [{"name": f"vm{m}", "cpus": 2.0, "egress_bps": 4 * MBIT} for m in range(2)]
    placement = place(network(2, hosts=egress), [app()])
    assert placement.completion_s == placement.bound_s == pytest.approx(2.0)
    assert placement.optimal
    assert placement.bottleneck.startswith("egress of vm0")
    worse = evaluate(network(2, hosts=egress), [app()], {"a": "vm0", "b": "vm1", "c": "vm1"})
    assert worse.completion_s == pytest.approx(4.0)
    assert not worse.optimal


def test_nothing_to_cross_takes_no_time() -> None:
    placement = place(network(), [app(tasks="ab")])
    assert (placement.completion_s, placement.bound_s, placement.optimal) == (0.0, 0.0, True)
    assert placement.bottleneck == "none: nothing crosses a limited link"


def test_transfer_within_a_task_is_free() -> None:
    loop = app(transfer=[{"source": "a", "target": "a", "bytes": MB}])
    assert place(network(), [loop]).completion_s == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_every_method_repeats_itself_and_survives_the_file(method: str) -> None:
    first, second = (
        decide(Question(network(5), [app(tasks="abcdefgh")]), Effort(method, seed=3, clock=lambda: 0.0)).placement
        for _ in range(2)
    )
    assert first == second
    assert Placement.model_validate_json(first.model_dump_json()) == first


@pytest.mark.slow
def test_seed_decides_random() -> None:
    drawn = {tuple(place(network(5), [app()], "random", seed=seed).assignment.values()) for seed in range(20)}
    assert len(drawn) > 5


def test_several_applications_share_the_hosts() -> None:
    apps = [app("one", tasks="ab"), app("two", tasks="ab", constraints={"pin": {"a": "vm0"}})]
    placement = place(network(2), apps, "min-machines")
    assert placement.apps == ["one", "two"]
    assert placement.assignment == {"one/a": "vm0", "one/b": "vm1", "two/a": "vm0", "two/b": "vm1"}


def test_phases_of_the_same_number_run_together() -> None:
    later = [{"source": "a", "target": "b", "bytes": MB, "phase": phase} for phase in (0, 2)]
    apps = [app(name, tasks="ab", cpus=cpus, transfer=later) for name, cpus in (("one", 2.0), ("two", 1.0))]
    given = {"one/a": "vm0", "one/b": "vm1", "two/a": "vm2", "two/b": "vm3"}
    assert evaluate(network(4), apps, given).completion_s == pytest.approx(2.0)


def test_sharing_comes_from_the_network_or_the_caller() -> None:
    spread = app(cpus=2.0)
    hosts = [{"name": f"vm{m}", "cpus": 2.0, "egress_bps": MBIT} for m in range(3)]
    racks = [{"name": "rack", "members": ["vm0"], "up_bps": 0.5 * MBIT}]
    net = network(hosts=hosts, groups=racks)
    times = [place(net, [spread], "greedy", sharing=sharing).completion_s for sharing in ("pipe", None, "groups")]
    given = {"a": "vm0", "b": "vm1", "c": "vm2"}
    assert times[:2] == pytest.approx([1.0, 16.0])
    assert times[2] == pytest.approx(16.0), "greedy avoids the slow rack"
    assert evaluate(net, [spread], given, sharing="groups").completion_s == pytest.approx(32.0)


def test_hosts_of_one_machine_spare_the_caps() -> None:
    hosts = [{"name": f"vm{m}", "cpus": 2.0, "egress_bps": MBIT, "machine": "pm0"} for m in range(3)]
    assert place(network(hosts=hosts), [app(cpus=2.0)]).completion_s == pytest.approx(1.0)


def test_memory_counts_where_it_is_known() -> None:
    needy = app(task=[{"name": name, "cpus": 0.0, "memory_bytes": 6} for name in "abc"])
    hosts = [{"name": "vm0", "memory_bytes": 10}, {"name": "vm1", "memory_bytes": 10}, {"name": "vm2"}]
    assert place(network(hosts=hosts), [needy], "min-machines").assignment == {"a": "vm0", "b": "vm1", "c": "vm2"}
    with pytest.raises(InfeasibleError, match=r"need 6 .* of memory each or more, and 2 hosts have room for 2 such"):
        place(network(2, hosts=hosts[:2]), [needy], "min-machines")


@pytest.mark.parametrize("method", METHODS)
def test_pin_is_kept(method: str) -> None:
    assert place(network(), [app(constraints={"pin": {"b": "vm2"}})], method).assignment["b"] == "vm2"


@pytest.mark.parametrize(
    ("constraints", "words"),
    [
        ({"apart": [["c", "a", "b"]]}, r"apart\[0\] of application `sort`: `a` and `b` are both on `vm0`"),
        ({"together": [["a", "b", "c"]]}, r"together\[0\] .* `b` is on `vm0` and `c` on `vm1`"),
        ({"max_hosts": 1}, "max_hosts .* uses 2 hosts, not 1"),
        (
            {"max_latency": [{"source": "a", "target": "c", "seconds": 0.0005}]},
            r"max_latency\[0\] .* `vm0` to `vm1` takes 0.001 s, not 0.0005 s",
        ),
    ],
)
def test_constraint_that_greedy_cannot_plan_for(constraints: dict[str, Any], words: str) -> None:
    with pytest.raises(InfeasibleError, match=f"greedy does not satisfy {words}"):
        place(network(), [app(constraints=constraints)], "greedy")


def test_constraints_met_by_chance_are_no_error() -> None:
    rules = {"together": [["a", "b"]], "apart": [["a", "c"]], "max_hosts": 2}
    assert place(network(), [app(constraints=rules)], "greedy").assignment["c"] == "vm1"


def test_unknown_latency_does_not_pass() -> None:
    unknown = network(latency_s=[[None] * 3 for _ in range(3)])
    rules = {"max_latency": [{"source": "a", "target": "c", "seconds": 1.0}]}
    with pytest.raises(InfeasibleError, match="latency from `vm0` to `vm1` is not known"):
        place(unknown, [app(constraints=rules)], "greedy")


def test_task_without_room_is_named_with_its_need() -> None:
    with pytest.raises(InfeasibleError, match="task `a` needs 3 cpus, more than any host") as raised:
        place(network(), [app(cpus=3.0)], "greedy")
    assert raised.value.hint
    tight = [{"name": name, "cpus": 1.5 if name in "de" else 1.0} for name in "abcde"]
    with pytest.raises(InfeasibleError, match=r"round-robin finds no host for task `.`, which needs 1"):
        place(network(), [app(task=tight)], "round-robin")
    with pytest.raises(InfeasibleError, match=r"random finds no placement in 1000 draws; .* task `.`"):
        place(network(), [app(task=tight)], "random")


@pytest.mark.parametrize(
    ("apps", "options", "words"),
    [
        ([], {}, "there is no application"),
        ([app(), app()], {}, "two applications are called `sort`"),
        ([app()], {"method": "best"}, "unknown method `best`; use auto, optimal, ilp, search, greedy, random"),
        ([app()], {"sharing": "tree"}, "unknown sharing `tree`; use hose, pipe, groups"),
        ([app()], {"seed": -1}, "seed -1 is out of range"),
        ([app()], {"time_limit_s": 0.0}, "a time limit of 0 s is out of range"),
        ([app()], {"allowed": {"z": ["vm0"]}}, "hosts are allowed for task `z`, which no application has"),
        ([app()], {"allowed": {"a": ["moon"]}}, "`a` is allowed on `moon`, which is not a host"),
        ([app()], {"allowed": {"a": []}}, "`a` is not allowed on any host"),
        ([app(constraints={"pin": {"a": "vm9"}})], {}, "pins task `a` to `vm9`, which is not a host of the network"),
        ([app(transfer=[{"source": "a", "target": "b", "bytes": 1 << 62}] * 5)], {}, r"more than 2\^64 bytes"),
    ],
)
def test_senseless_request_is_one_line(apps: list[App], options: dict[str, Any], words: str) -> None:
    with pytest.raises(GavotteError, match=words):
        place(network(), apps, **options)


@pytest.mark.parametrize(
    ("assignment", "words"),
    [
        ({"a": "vm0", "b": "vm1"}, "no host for task `c`"),
        ({"a": "vm0", "b": "vm1", "c": "moon"}, "`c` is assigned to `moon`"),
        ({"a": "vm0", "b": "vm1", "c": "vm2", "d": "vm0"}, "names task `d`"),
        ({"a": "vm0", "b": "vm0", "c": "vm0"}, "host `vm0` has no room for task `c`"),
    ],
)
def test_assignment_that_does_not_match(assignment: dict[str, str], words: str) -> None:
    with pytest.raises(GavotteError, match=words):
        evaluate(network(), [app()], assignment)


def test_rate_too_small_to_end_is_refused() -> None:
    with pytest.raises(ValueError, match="greater than or equal to 1"):
        network(rate_bps=5e-324)


def test_compiled_module_tells_how_it_was_built() -> None:
    assert _core.build_profile() in {"release", "debug"}
