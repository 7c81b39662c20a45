"""MPI hostfiles, in the spellings of Open MPI and MPICH."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gavotte.agents import resolve_hosts
from gavotte.agents.sources.mpi import parse_hostfile
from gavotte.errors import GavotteError

HOSTFILE = """\
# the cluster
10.0.0.1 slots=4 max_slots=8   # Open MPI
10.0.0.2:4

ada@10.0.0.3 slots = 2
10.0.0.1 slots=1
10.0.0.4
10.0.0.4
10.0.0.5:2 binding=user:0,1
10.0.0.6 max-slots=3
"""


def test_a_hostfile(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_text(HOSTFILE)
    inventory = resolve_hosts(f"mpi:{path}")
    assert {host.address: host.cpus for host in inventory.host} == {
        "10.0.0.1": 5, "10.0.0.2": 4, "10.0.0.3": 2, "10.0.0.4": 2, "10.0.0.5": 2, "10.0.0.6": 3,
    }  # fmt: skip
    assert inventory.host[2].agent == "ssh://ada@10.0.0.3"
    assert inventory.names[0] == "10.0.0.1"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "names no host"),
        ("# nothing\n", "names no host"),
        ("a\nb slots=x", "line 2: `x` is not a number"),
        ("a slots=0", "line 1: makes the number of slots 0"),
        ("a:4 slots=4", "line 1: gives the slots twice"),
        ("a slots=4 max_slots=2", "line 1: has 4 slots, but at most 2"),
        ("a speed=9", "line 1: `speed=9` is not a hostfile setting"),
        ("a 4", "line 1: `4` is not a hostfile setting"),
        ("a:", "line 1: `a:` is not a host"),
        ("-oProxyCommand=x", "line 1: `-oProxyCommand=x` is not a host"),
        ("a slots=99999999", "line 1: makes the number of slots 99999999"),
        ("x.invalid:1", "line 1: `x.invalid` does not resolve"),
    ],
)
def test_errors_name_file_line_and_remedy(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "hosts"
    path.write_text(text)
    with pytest.raises(GavotteError) as raised:
        resolve_hosts(f"mpi:{path}")
    assert str(path) in str(raised.value)
    assert message in str(raised.value)
    assert raised.value.hint
    assert "\n" not in str(raised.value)


@given(st.text(alphabet="ab:=#14 @[]\n\r\t", max_size=60) | st.text(max_size=40))
def test_fuzz(text: str) -> None:
    try:
        entries = parse_hostfile(text, "hosts")
    except GavotteError as error:
        assert "\n" not in str(error)
    else:
        assert all(entry.slots >= 1 and entry.host for entry in entries)
        assert len({entry.host for entry in entries}) == len(entries)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 9)), min_size=1, max_size=12))
def test_mentions_add_up_in_both_spellings(mentions: list[tuple[str, int]]) -> None:
    open_mpi = parse_hostfile("\n".join(f"{host} slots={count}" for host, count in mentions), "hosts")
    mpich = parse_hostfile("\n".join(f"{host}:{count}" for host, count in mentions), "hosts")
    assert open_mpi == mpich
    assert sum(entry.slots for entry in open_mpi) == sum(count for _, count in mentions)
