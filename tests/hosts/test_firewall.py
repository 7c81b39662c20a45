"""The missing rules, derived from failures between hosts."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from gavotte.agents.greetings import MOST_PEERS, rounds
from gavotte.hosts.firewall import needed_rules
from gavotte.hosts.paths import ANSWER_LOST, FORBIDDEN, OK, REFUSED, SILENT, TURNED_AWAY, Path

Pairs = Iterable[tuple[str, str]]


def paths(hosts: str, *, no_tcp: Pairs = (), no_udp: Pairs = (), word: str = SILENT) -> list[Path]:
    def of(source: str, target: str) -> Path:
        tcp, udp = (word if (source, target) in set(pairs) else OK for pairs in (no_tcp, no_udp))
        return Path(source, target, f"10.0.0.{ord(source)}", f"10.0.0.{ord(target)}", 7411, tcp, udp)

    return [of(source, target) for source in hosts for target in hosts if source != target]


def to(target: str, hosts: str = "abcd") -> list[tuple[str, str]]:
    return [(source, target) for source in hosts if source != target]


def out(source: str, hosts: str = "abcd") -> list[tuple[str, str]]:
    return [(source, target) for target in hosts if source != target]


def test_no_rule_where_all_pass() -> None:
    assert needed_rules(paths("abc")) == []
    assert needed_rules([]) == []


def test_pairs_that_one_rule_explains_are_grouped() -> None:
    both = {*to("b"), ("c", "a")}
    assert needed_rules(paths("abcd", no_udp=both)) == [
        "host b accepts no UDP: open port 7411/udp on it",
        "allow UDP from c (10.0.0.99) to a (10.0.0.97) port 7411 (no answer)",
    ]


def test_both_protocols_share_a_line() -> None:
    blocked = to("d")
    assert needed_rules(paths("abcd", no_tcp=blocked, no_udp=blocked)) == [
        "host d accepts no TCP and no UDP: open port 7411/tcp and port 7411/udp on it"
    ]
    assert needed_rules(paths("ab", no_tcp=[("a", "b")], no_udp=[("a", "b")], word=REFUSED)) == [
        "allow TCP and UDP from a (10.0.0.97) to b (10.0.0.98) port 7411 (refused)"
    ]


@pytest.mark.parametrize(("word", "whose"), [(SILENT, "a firewall"), (FORBIDDEN, "its own firewall")])
def test_a_host_that_sends_none(word: str, whose: str) -> None:
    assert needed_rules(paths("abcd", no_udp=out("c"), word=word)) == [
        f"host c sends no UDP: {whose} must allow UDP from 10.0.0.99 to port 7411 of the others"
    ]


def test_nothing_passes_at_all() -> None:
    everywhere = [pair for host in "abcd" for pair in to(host)]
    assert needed_rules(paths("abcd", no_udp=everywhere)) == [
        "no host accepts UDP from another: open port 7411/udp between all hosts"
    ]


def test_answers_that_are_lost_are_named_unless_an_open_port_brings_them() -> None:
    lost = paths("abc", no_udp=out("b", "abc"), word=ANSWER_LOST)
    assert needed_rules(lost) == [
        "answers over UDP to b (10.0.0.98) are lost: let answers through, or all UDP that comes from port 7411"
    ]
    closed = [path for path in paths("abc", no_udp=to("b", "abc")) if path.source != "b"]
    both = closed + [path for path in lost if path.source == "b"]
    assert needed_rules(both) == ["host b accepts no UDP: open port 7411/udp on it"]


def test_what_turns_connections_away_is_no_firewall() -> None:
    (rule,) = needed_rules(
        [Path("a", "b", "10.0.0.1", "10.0.0.2", 7411, TURNED_AWAY, SILENT, "the other agent hung up")]
    )[1:]
    assert rule.startswith(
        "a finds no agent of this run at 10.0.0.2 port 7411 (the other agent hung up); correct the `address`"
    )


@pytest.mark.parametrize("hosts", [2, 3, MOST_PEERS + 1, MOST_PEERS + 2, 100, 1000])
def test_each_host_greets_all_others_round_by_round(hosts: int) -> None:
    ahead = rounds(hosts)
    assert all(len(each) <= MOST_PEERS for each in ahead)
    assert len(ahead[0]) == min(hosts - 1, MOST_PEERS)
    assert sorted(offset for each in ahead for offset in each) == list(range(1, hosts))
