"""Silence of hosts in a broadcast: measured by the reports of the others."""

from __future__ import annotations

from gavotte.transfer.reporting import Reporting


def reported(hosts: str, seconds: float, *, silent_from_s: float, every_s: float = 0.2) -> Reporting:
    """Reports of all hosts; the last one is silent from some time on."""
    reporting = Reporting()
    for step in range(round(seconds / every_s)):
        for host in hosts:
            if host != hosts[-1] or step * every_s < silent_from_s:
                reporting.heard(host, step * every_s)
    return reporting


def test_a_host_that_hangs_is_silent_and_the_others_are_not() -> None:
    reporting = reported("abc", 4.0, silent_from_s=2.0)
    assert reporting.silent(1.8) == {"c"}
    assert reporting.silent(2.1) == set()
    reporting.forget("c")
    assert reporting.silent(0.0) == {"a", "b"}


def test_nobody_is_silent_while_the_controller_itself_waits() -> None:
    reporting = reported("abc", 2.0, silent_from_s=9.0)
    reporting.heard("a", 30.0)
    assert reporting.silent(0.5) == set()


def test_late_reports_of_all_hosts_lengthen_the_average() -> None:
    assert abs(reported("abc", 40.0, silent_from_s=99.0).interval_s - 0.2) < 0.01
    assert reported("abc", 400.0, silent_from_s=999.0, every_s=1.0).interval_s > 0.9
