"""Pairs whose single connections are limited: as many connections as an application has, and no more, count."""

from __future__ import annotations

import pytest
from tests import builders

from gavotte.formats.network import Network
from gavotte.place import evaluate, place
from gavotte.terms.loss import connection_bps

ONE_BPS, SEVERAL_BPS = 5e9, 2.5e10
SIZE = 10**9


def provider() -> Network:
    """Hosts with NICs of 25 Gbit/s, on which each connection gets 5."""
    hosts = [{"name": name, "cpus": 99, "egress_bps": SEVERAL_BPS, "ingress_bps": SEVERAL_BPS} for name in "mn"]

    def pairs(value: float) -> list[list[float | None]]:
        return [[None, value], [value, None]]

    return builders.network(hosts, pairs(ONE_BPS), several_bps=pairs(SEVERAL_BPS), connections=[[None, 8], [8, None]])


@pytest.mark.parametrize(
    ("sizes", "phases", "expected_s"),
    [
        ((SIZE,), False, 8 * SIZE / ONE_BPS),
        ((SIZE, SIZE), False, 8 * SIZE / ONE_BPS),
        ((SIZE,) * 10, False, 80 * SIZE / SEVERAL_BPS),
        ((3 * SIZE, SIZE), False, 24 * SIZE / ONE_BPS),
        ((SIZE, SIZE), True, 16 * SIZE / ONE_BPS),
    ],
)
def test_each_transfer_is_one_connection(sizes: tuple[int, ...], phases: bool, expected_s: float) -> None:
    app = builders.app("app", *((f"s{i}", f"t{i}", size, i * phases) for i, size in enumerate(sizes)))
    assignment = {task.name: "m" if task.name[0] == "s" else "n" for task in app.task}
    assert evaluate(provider(), [app], assignment).completion_s == pytest.approx(expected_s)


def test_the_bound_holds_for_placements_with_several_connections() -> None:
    app = builders.app(
        "app",
        *((f"s{i}", f"t{i}", SIZE) for i in range(5)),
        constraints={"apart": [[f"s{i}", f"t{i}"] for i in range(5)]},
    )
    placement = place(provider(), [app])
    assert placement.bound_s <= placement.completion_s <= 8 * SIZE / ONE_BPS * 1.001


def test_a_path_that_loses_packets_takes_as_long_as_one_connection_does() -> None:
    loss: list[list[float | None]] = [[None, 0.01], [None, None]]
    network = builders.network(2, 50e6, 0.005, cpus=1.0, loss=loss)
    one = builders.app("one", ("x", "y", 10_000_000))
    present, back = ({"x": f"vm{m}", "y": f"vm{1 - m}"} for m in (0, 1))
    assert evaluate(network, [one], present).completion_s == pytest.approx(8e7 / connection_bps(0.01, 0.01, 1448))
    assert evaluate(network, [one], back).completion_s == pytest.approx(1.6)
    assert place(network, [one], "search").assignment == back
