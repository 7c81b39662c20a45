"""How many connections a shuffle's flows have next to others' connections."""

from __future__ import annotations

from gavotte.transfer.contending import LEAST_BYTES, MOST, MOST_TOGETHER, Contending

RATES = {0: 6e6, 1: 3e6, 2: 1e6}
LEFT = [8_000_000, 4_000_000, 1_000_000]


def after(others: float, seconds: float, *, helps: bool = True) -> dict[int, int]:
    """Counts after flows have shared a link with others; without `helps`, more connections carry no more."""
    contending, counts = Contending(), dict.fromkeys(RATES, 1)
    for step in range(round(seconds / 0.2)):
        together = sum(counts.values()) if helps else len(RATES)
        share = together / (together + others)
        counts |= contending.observe(0.2 * step, share, RATES, LEFT)
    return counts


def test_flows_alone_keep_one_connection_each() -> None:
    assert after(0, 10.0) == dict.fromkeys(RATES, 1)


def test_next_to_others_they_get_more_in_proportion_to_their_rates() -> None:
    counts = after(1, 10.0)
    assert counts[0] > counts[1] > counts[2]
    assert sum(counts.values()) / (sum(counts.values()) + 1) > 0.93
    many = after(50, 60.0)
    assert max(many.values()) <= MOST
    assert sum(many.values()) <= MOST_TOGETHER + len(RATES)


def test_where_connections_do_not_help_few_are_opened() -> None:
    # A machine without processors is as slow with any number.
    assert sum(after(2, 6.0, helps=False).values()) <= 6 * len(RATES)


def test_a_flow_that_ends_soon_gets_none() -> None:
    changes = Contending().observe(0.0, 0.5, RATES, [*LEFT[:2], LEAST_BYTES - 1])
    assert changes.keys() == {0, 1}
