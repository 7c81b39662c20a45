"""Fast paths: how many connections are tried, and their bytes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import pytest

from gavotte.measure.adapt.events import Steps
from gavotte.measure.adapt.results import PathResult
from gavotte.measure.adapt.widening import Widening, widened
from gavotte.measure.plan.fast_paths import probes_of_host
from gavotte.measure.plan.methods.method import Reading
from gavotte.measure.plan.path_plan import plan_paths
from gavotte.terms import Pair

NAMES = [f"host-{number}" for number in range(16)]


class Provider:
    """A network that limits each flow, and each pair."""

    def __init__(self, flow_bps: float, pair_bps: float, slowed: int = -1) -> None:
        self.flow_bps, self.pair_bps = flow_bps, pair_bps
        self.slowed = slowed
        self.steps: list[dict[Pair, int]] = []

    def send(self, wanted: Mapping[Pair, int]) -> Steps[dict[Pair, float]]:
        yield from ()
        share = 0.5 if len(self.steps) == self.slowed else 1.0
        self.steps.append(dict(wanted))
        return {
            pair: share * min(count * self.flow_bps, self.pair_bps) for pair, count in wanted.items() if pair != (9, 9)
        }


def climbed(widening: Widening, pairs: Sequence[Pair], known: Collection[Pair] = ()) -> dict[Pair, dict[int, float]]:
    """Return what pairs carry, by number of connections."""
    steps = widening.climb(pairs, known)
    with pytest.raises(StopIteration) as end:
        next(steps)
    results: dict[Pair, dict[int, float]] = end.value.value
    return results


def test_connections_double_until_their_sum_no_longer_grows() -> None:
    provider = Provider(5e9, 25e9)
    result = climbed(Widening(provider.send), [(0, 1)])
    assert result == {(0, 1): {1: 5e9, 2: 10e9, 4: 20e9, 8: 25e9, 16: 25e9}}
    path = widened(PathResult(Reading(7e9, verdict="host-limited")), result[0, 1])
    assert (path.reading.goodput_bps, path.reading.several_bps, path.reading.connections) == (5e9, 25e9, 8)
    assert (path.reading.by_tcp, path.reading.verdict) == ("fast", "unproven")


@pytest.mark.parametrize("slowed", range(8))
def test_one_step_that_a_neighbour_slows_changes_nothing(slowed: int) -> None:
    provider = Provider(5e9, 25e9, slowed)
    result = climbed(Widening(provider.send), [(0, 1)])[0, 1]
    reading = widened(PathResult(Reading(7e9, verdict="host-limited")), result).reading
    assert (reading.goodput_bps, reading.several_bps) == (5e9, 25e9)
    assert [step[0, 1] for step in provider.steps].count(1) == 2


def test_one_connection_that_fills_the_path_is_followed_by_one_step() -> None:
    provider = Provider(25e9, 25e9)
    result = climbed(Widening(provider.send), [(0, 1), (2, 3)])
    assert [list(rates) for rates in result.values()] == [[1, 2], [1, 2]]
    assert widened(PathResult(Reading(7e9, verdict="host-limited")), result[0, 1]).reading.connections == 1


def test_later_paths_of_a_source_take_two_steps_or_one() -> None:
    provider = Provider(5e9, 25e9)
    widening = Widening(provider.send)
    climbed(widening, [(0, 1)])
    provider.steps.clear()
    assert climbed(widening, [(0, 2)]) == {(0, 2): {1: 5e9, 8: 25e9}}
    assert provider.steps == [{(0, 2): 1}, {(0, 2): 8}]
    widening.needed[0] = 1
    assert climbed(widening, [(0, 3)]) == {(0, 3): {1: 5e9}}
    provider.steps.clear()
    assert climbed(widening, [(0, 4)], known=[(0, 4)]) == {}
    assert provider.steps == []


def test_a_path_that_does_not_answer_is_left_out() -> None:
    assert climbed(Widening(Provider(5e9, 5e9).send), [(9, 9)]) == {}


def test_a_rate_that_a_train_proved_stays() -> None:
    proved = Reading(5e9, low_bps=4.9e9, high_bps=5.1e9, verdict="path-limited")
    reading = widened(PathResult(proved), {1: 4.8e9, 2: 9e9}).reading
    assert (reading.goodput_bps, reading.verdict, reading.by_tcp) == (5e9, "path-limited", "")
    assert (reading.several_bps, reading.connections) == (9e9, 2)


def test_sixteen_hosts_of_25_gbit_send_less_than_2_gb_each() -> None:
    plan = plan_paths(NAMES, assumed_bps=25e9)
    cost = plan.cost()
    trains = plan.paths * plan.method.bytes_per_path
    assert cost.bytes > trains
    assert cost.bytes <= cost.max_bytes < 16 * 2e9
    assert plan.stream_bytes * probes_of_host(15) + 15 * plan.method.bytes_per_path < 2e9


@pytest.mark.parametrize("rate_bps", [1e8, 1e9])
def test_slow_paths_cost_no_more_than_trains(rate_bps: float) -> None:
    plan = plan_paths(NAMES, assumed_bps=rate_bps)
    assert plan.cost().bytes < 1.1 * plan.paths * plan.method.typical(rate_bps)[0]
