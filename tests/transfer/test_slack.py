"""How much faster than their rates a shuffle's flows may be."""

from __future__ import annotations

import pytest

from gavotte.transfer.slack import MOST, SLACK, Slack

RATE = 8e6


def after(share: float, *, slack: Slack | None = None, seconds: float = 4.0, begin_s: float = 0.0) -> Slack:
    """Slack after flows have got a share of their rates, or of their paces where that is less."""
    slack = slack or Slack()
    moved = 1e6 * begin_s
    for step in range(round(seconds / 0.2)):
        moved += 0.2e6 * min(share, slack.factor)
        slack.observe(begin_s + 0.2 * step, moved, RATE)
    return slack


def test_flows_that_keep_their_rates_need_no_more() -> None:
    assert after(1.0).factor == SLACK


def test_others_may_use_what_some_leave_until_links_are_full_again() -> None:
    slack = after(0.9)
    assert slack.factor > 1.5
    slack = after(1.0, slack=slack, seconds=12.0, begin_s=4.0)
    assert slack.factor == SLACK


def test_links_that_carry_more_than_is_known_are_used() -> None:
    assert after(1.3, seconds=12.0).factor == pytest.approx(1.3, rel=0.05)


def test_it_is_bounded() -> None:
    assert after(0.1, seconds=60.0).factor == MOST
    assert after(0.0, seconds=0.2).factor == SLACK
