"""Mistakes that people make with names, files and units: each causes a line with the likely meaning."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests import builders
from tests.profile import frames
from tests.shell import gavotte

from gavotte.agents import resolve_hosts
from gavotte.cli import measure
from gavotte.errors import FormatError, GavotteError
from gavotte.formats.app import read_app, write_app
from gavotte.formats.guarantee import read_guarantee
from gavotte.formats.history import read_history, write_history
from gavotte.formats.inventory import read_inventory
from gavotte.formats.network import read_network, write_network
from gavotte.formats.parts.byte_matrix import read_byte_matrix
from gavotte.formats.parts.rate_fields import parse_rate
from gavotte.formats.placement import read_placement, write_placement
from gavotte.formats.topology import read_topology
from gavotte.place import place
from gavotte.profile.gathering import Request
from gavotte.profile.sources.mpip import read_mpip
from gavotte.simulate import read_flows
from gavotte.store import import_file, open_store
from gavotte.transfer.traces import read_trace

NAMES = ["web1", "web2", "web3", "db1"]
FLOWS = "id,source,target,bytes,start_s\n0,web1,web2,1000,0\n"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """One file of each kind, by the noun's name."""
    write_network(tmp_path / "Network", builders.network(NAMES, 1e8, 1e-4, cpus=4.0))
    write_app(tmp_path / "App", builders.app("a", ("x", "y", 10**6)))
    write_history(tmp_path / "History", builders.history(np.full((2, 4, 4), 1e7)))
    write_placement(tmp_path / "Placement", builders.placement({"x": "web1", "y": "web2"}, "a"))
    (tmp_path / "Topology").write_text('format = "gavotte/topology/1"\n[[switch]]\nname = "core"\n')
    (tmp_path / "Guarantee").write_text('format = "gavotte/guarantee/1"\n')
    (tmp_path / "Inventory").write_text('# of the lab\nformat = "gavotte/hosts/1"\n')
    (tmp_path / "list of flows").write_text(FLOWS)
    (tmp_path / "table of bytes").write_text("source,target,bytes\nweb1,web2,1000\n")
    (tmp_path / "coflow trace").write_text("coflow,arrival_s,source,target,bytes\nc,0,web1,web2,1000\n")
    (tmp_path / "mpiP report").write_text("@ mpiP\n")
    (tmp_path / "capture of packets").write_bytes(b"\xd4\xc3\xb2\xa1\x02\x00\x04\x00\xff\xff")
    return tmp_path


READERS: dict[str, Callable[[Path], Any]] = {
    "Network": read_network,
    "App": read_app,
    "History": read_history,
    "Placement": read_placement,
    "Topology": read_topology,
    "Inventory": read_inventory,
    "Guarantee": read_guarantee,
    "list of flows": lambda path: read_flows(path, NAMES),
    "table of bytes": read_byte_matrix,
    "coflow trace": read_trace,
    "mpiP report": lambda path: read_mpip(Request((str(path),))),
}
TABLES = {"list of flows", "table of bytes", "coflow trace"}
"""Their columns may be in any order and among others: missing ones are named."""


@pytest.mark.parametrize("wanted", READERS)
@pytest.mark.parametrize("given", [*READERS, "capture of packets"])
def test_a_file_of_another_kind_is_named_as_such(files: Path, given: str, wanted: str) -> None:
    path = files / given
    if given == wanted or {given, wanted} <= TABLES:
        if given == wanted and given not in ("Topology", "Inventory", "Guarantee", "mpiP report"):
            READERS[wanted](path)
        return
    with pytest.raises(FormatError) as raised:
        READERS[wanted](path)
    a, an = (f"a{'n' * (noun[0] in 'AIm')} {noun}" for noun in (given, wanted))
    assert str(raised.value) == f"{path}: is {a}; use {an}"


def test_a_file_of_another_kind_is_not_imported(files: Path) -> None:
    with open_store(files / "s.sqlite") as store, pytest.raises(FormatError, match="is a Network; use a History"):
        import_file(store, files / "Network")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("place App Network", "App: is an App; use a Network"),
        ("simulate Placement App --network History", "History: is a History; use a Topology"),
        ("collective Network --operation gather --root wbe1", "no rank runs on the root `wbe1`; did you mean `web1`?"),
        ("collective Network --operation gather --ranks web1,wbe2", "has no host `wbe2`; did you mean `web2`?"),
        ("map Network App --reorder web1,wbe2", "the network has no host `wbe2`; did you mean `web2`?"),
        ("place Network App --only x=wbe1", "the network has no host `wbe1`; did you mean `web1`?"),
        ("place Network App --only xx=web1", "`xx` matches no task; did you mean `x`?"),
        ("model History --without hh1", "`hh1`, which is not in the History; did you mean `h1`?"),
        ("model History -o x.csv", "x.csv: a Network is written as .json; use -o x.json"),
        ("place Network App -o x.csv", "x.csv: a Placement is written as .json; use -o x.json"),
        ("simulate Network mistyped.csv", "mistyped.csv: line 2: source: no host `wbe1`; did you mean `web1`?"),
        (
            "simulate Mistyped App --network n.network.json",
            "placed on `wbe1`, which is not a host of the network; did you",
        ),
        ("run Mistyped App --hosts Hosts", "`wbe1`, which is not a host of the inventory; did you mean `web1`?"),
        (
            "place Network App --ran Mistyped --took 5",
            "`wbe1`, which is not a host of the network; did you mean `web1`?",
        ),
        ("export Mistyped --format slurm --network Network", "the network has no host `wbe1`; did you mean `web1`?"),
        ("guarantee apply Wanted --hosts Hosts", "the inventory has no host `wbe1`; did you mean `web1`?"),
        ("broadcast App --hosts Hosts --from wbe1 -o x", "the inventory has no host `wbe1`; did you mean `web1`?"),
        (
            "broadcast App --hosts Hosts --from web1 --to wbe2 -o x",
            "the inventory has no host `wbe2`; did you mean `web2`?",
        ),
        ("simulate Network flows.csv --poisson wbe1:db1:1:1MB", "no host `wbe1`; did you mean `web1`?"),
    ],
)
def test_what_was_meant_is_told(files: Path, words: str, message: str) -> None:
    (files / "n.network.json").write_bytes((files / "Network").read_bytes())
    (files / "flows.csv").write_text(FLOWS)
    (files / "mistyped.csv").write_text(FLOWS.replace("web1", "wbe1"))
    write_placement(files / "Mistyped", builders.placement({"x": "wbe1", "y": "web2"}, "a"))
    (files / "Wanted").write_text(
        'format = "gavotte/guarantee/1"\n[[guarantee]]\nhost = "wbe1"\negress = "1mbit"\ningress = "1mbit"\n'
    )
    hosts = "".join(
        f'[[host]]\nname = "{name}"\naddress = "127.0.0.{at}"\nagent = "unix:/nowhere/{at}"\n'
        for at, name in enumerate(NAMES, 1)
    )
    (files / "Hosts").write_text(f'format = "gavotte/hosts/1"\n{hosts}')
    done = gavotte(*words.replace("simulate Network", "simulate n.network.json").split(), cwd=files)
    assert done.returncode == 1
    *notes, last = done.stderr.splitlines()
    assert message in last
    assert not any(line.startswith("error: ") for line in notes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("300 Mbps", "`300 Mbps` means bytes per second, as in tc: 2.40 Gbit/s; write 300mbit for bits"),
        ("300mbit", None),
        ("300000000", None),
        ("1e8", None),
    ],
)
def test_units_that_mean_something_else_to_most_are_told(
    text: str, message: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "gavotte"):
        parse_rate(text)
    assert [record.getMessage() for record in caplog.records] == ([] if message is None else [message])


@pytest.mark.parametrize("text", ["20", "300", "999999"])
def test_a_small_rate_without_a_unit_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has no unit"):
        parse_rate(text)
    assert parse_rate(f"{text}bit") == float(text)
    hosts = "".join(f'[[host]]\nname = "h{i}"\nswitch = "core"\negress = "{text}"\n' for i in range(2))
    (tmp_path / "t.toml").write_text(f'format = "gavotte/topology/1"\n[[switch]]\nname = "core"\n{hosts}')
    with pytest.raises(FormatError, match=rf'egress: `{text}` has no unit, and would be .* use e.g. "{text}mbit"'):
        read_topology(tmp_path / "t.toml")


def test_a_misspelt_key_is_named_before_the_one_that_is_missing(tmp_path: Path) -> None:
    (tmp_path / "t.toml").write_text('format = "gavotte/topology/1"\n[[swittch]]\nname = "core"\n')
    with pytest.raises(FormatError, match=r"swittch: is not a known key; did you mean `switch`\?"):
        read_topology(tmp_path / "t.toml")


@pytest.mark.parametrize(
    ("encoding", "problem"),
    [
        ("utf-16", "is UTF-16 text"),
        ("utf-16-be", "cannot"),
        ("latin-1", r"is not UTF-8 text \(byte \d+\)"),
        ("utf-8-sig", ""),
    ],
)
def test_encodings_of_other_editors_are_read_or_named(encoding: str, problem: str, tmp_path: Path) -> None:
    text = 'format = "gavotte/hosts/1" # Z\xfcrich\n[[host]]\nname = "a"\naddress = "10.0.0.1"\nagent = "ssh://a"\n'
    content = text.encode(encoding)
    (tmp_path / "h.toml").write_bytes(b"\xfe\xff" + content if encoding == "utf-16-be" else content)
    if not problem:
        assert read_inventory(tmp_path / "h.toml").names == ["a"]
        return
    with pytest.raises(FormatError, match=f"{'is UTF-16 text' if problem == 'cannot' else problem}; save it as UTF-8"):
        read_inventory(tmp_path / "h.toml")


@pytest.mark.slow
def test_seconds_are_accepted_with_their_unit(tmp_path: Path) -> None:
    write_network(tmp_path / "n.network.json", builders.network(["a", "b"], 1e8, 1e-4, cpus=4.0))
    write_app(tmp_path / "a.app.toml", builders.app("a", ("x", "y", 1e6)))
    line = ("place", "n.network.json", "a.app.toml", "--time-limit")
    for limit in ("5", "5s", "500ms", "0.1min"):
        assert gavotte(*line, limit, cwd=tmp_path).returncode == 0
    for limit in ("5x", "s", "5 5s"):
        done = gavotte(*line, limit, cwd=tmp_path)
        assert done.returncode == 2
        wrong = f"`{limit}` is not a duration; use e.g. 5, 5s or 10min; see --help"
        assert done.stderr == f"error: Invalid value for '--time-limit': {wrong}\n"
    assert gavotte(*line, "0.001ms", cwd=tmp_path).returncode == 2  # below the least


def test_one_app_needs_no_list() -> None:
    network, app = builders.network(["a", "b"], 1e8, 1e-4, cpus=4.0), builders.app("a", ("x", "y", 1e6))
    assert place(network, app).assignment == place(network, [app]).assignment


def test_hosts_may_be_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    inventory = resolve_hosts("10.0.0.1, me@10.0.0.2,")
    assert [(host.name, host.address) for host in inventory.host] == [
        ("10.0.0.1", "10.0.0.1"),
        ("10.0.0.2", "10.0.0.2"),
    ]
    assert [host.agent for host in inventory.host] == ["ssh://10.0.0.1", "ssh://me@10.0.0.2"]
    for names, problem in (
        ("10.0.0.1,10.0.0.1", "are both 10.0.0.1"),
        (",", "names no host"),
        ("10.0.0.1,no-such-host.invalid", "`no-such-host.invalid` does not resolve here"),
    ):
        with pytest.raises(FormatError, match=problem):
            resolve_hosts(names)


@pytest.mark.slow
def test_a_warning_of_units_comes_once(tmp_path: Path) -> None:
    hosts = "".join(f'[[host]]\nname = "h{i}"\nswitch = "core"\nrate = "25mbps"\n' for i in range(3))
    (tmp_path / "t.topology.toml").write_text(f'format = "gavotte/topology/1"\n[[switch]]\nname = "core"\n{hosts}')
    (tmp_path / "f.csv").write_text("id,source,target,bytes,start_s\n0,h0,h1,1000000,0\n")
    done = gavotte("simulate", "t.topology.toml", "f.csv", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stderr.count("warning: `25mbps` means bytes per second, as in tc: 200 Mbit/s") == 1


def test_an_interrupted_measurement_names_resume(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    class Stopped(BaseException):
        """As a signal raises."""

    journal = tmp_path / "h.npz.partial"
    for kept, ended, message in ((False, Stopped, ""), (True, GavotteError, ""), (True, Stopped, "--resume")):
        if kept:
            journal.write_text("{}")
        with pytest.raises(ended), measure._resumable(journal):
            raise ended("over")
        shown = capsys.readouterr().err
        assert message in shown
        assert bool(shown) == bool(message)


@pytest.mark.slow
def test_a_profile_with_next_to_no_bytes_warns(tmp_path: Path) -> None:
    capture = frames.write(tmp_path, frames.pcap_bytes([frames.tcp(), frames.tcp(target="10.0.0.9", payload=900)]))
    words = ("profile", "pcap", capture, "--task", f"a={frames.A}", "--task", f"b={frames.B}")
    done = gavotte(*words, "--min-bytes", "0")
    assert done.returncode == 0
    assert (
        "warning: only 100 B between tasks, too little for a placement; 900 B belong to other traffic; check"
        in done.stderr
    )


@pytest.mark.parametrize(
    ("words", "example"),
    [
        (["report"], "gavotte report --network cloud.network.json -o cloud.html"),
        (["report", "--network", "n.network.json"], "gavotte report --network cloud.network.json -o cloud.html"),
        (["place"], "gavotte place cloud.network.json sort.app.toml -o sort.placement.json"),
        (["transfers", "wait"], "gavotte transfers wait 3 --timeout 600"),
    ],
)
def test_a_command_without_its_options_shows_an_example(words: list[str], example: str) -> None:
    ran = gavotte(*words)
    assert ran.returncode == 2
    assert ran.stderr.startswith("error: Missing ")
    assert ran.stderr.endswith(f"; use e.g. `{example}`, or see --help\n")
