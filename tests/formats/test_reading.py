"""Every noun names file, field and remedy in one line, and never lets another exception out."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion
from tests.examples import examples

from gavotte.errors import FormatError
from gavotte.formats.app import App, read_app, write_app
from gavotte.formats.files.reading import write_text
from gavotte.formats.inventory import Inventory, read_inventory, write_inventory
from gavotte.formats.network import Network, read_network, write_network
from gavotte.formats.parts.byte_matrix import read_byte_matrix
from gavotte.formats.placement import Placement, read_placement, write_placement
from gavotte.formats.record import Record, read_records, write_records
from gavotte.formats.topology import read_topology
from gavotte.simulate.flows import read_flows
from gavotte.transfer.traces import read_trace

TOPOLOGY = """
format = "gavotte/topology/1"
[[switch]]
name = "core"
[[switch]]
name = "tor0"
parent = "core"
up = "10gbit"
[[machine]]
name = "pm0"
switch = "tor0"
rate = "1gbit"
machine_rate = "4gbit"
[[host]]
name = "vm0"
machine = "pm0"
egress = "300mbit"
burst = "512kb"
cpus = 4.0
memory_bytes = 17179869184
[[host]]
name = "vm1"
switch = "core"
rate = "1gbit"
"""

APP = """
format = "gavotte/app/1"
name = "sort"
[[task]]
name = "map-0"
[[task]]
name = "reduce-0"
cpus = 2
[[transfer]]
source = "map-0"
target = "reduce-0"
bytes = 104857600
[constraints]
pin = { map-0 = "vm3" }
apart = [["map-0", "reduce-0"]]
"""

HOSTS = """
format = "gavotte/hosts/1"
[[host]]
name = "vm0"
address = "10.0.0.2"
agent = "unix:/run/x.sock"
cpus = 4
"""

NETWORK: dict[str, Any] = {
    "format": "gavotte/network/1",
    "hosts": [{"name": "vm0", "cpus": 4}, {"name": "vm1", "egress_bps": 3e8}],
    "rate_bps": [[None, 1e8], [2e8, None]],
    "latency_s": [[None, 1e-4], [1e-4, None]],
    "groups": [{"name": "rack", "members": ["vm0"], "up_bps": 1e9}],
    "sharing": "groups",
    "from_a_newer_version": 1,
}

PLACEMENT: dict[str, Any] = {
    "format": "gavotte/placement/1",
    "apps": ["sort"],
    "method": "greedy",
    "assignment": {"map-0": "vm0"},
    "completion_s": 1.0,
    "bound_s": 0.5,
    "optimal": False,
    "bottleneck": "egress of vm0",
    "elapsed_s": 0.0,
    "seed": 0,
}


def change(document: dict[str, Any], **values: Any) -> str:
    return json.dumps(document | values)


MISTAKES: dict[str, tuple[str, str]] = {
    "empty": ("topology.toml", ""),
    "not TOML": ("topology.toml", "x = = 1"),
    "another version": ("topology.toml", TOPOLOGY.replace("topology/1", "topology/2")),
    "unknown key": ("topology.toml", TOPOLOGY.replace("egress =", "egres =")),
    "unknown unit": ("topology.toml", TOPOLOGY.replace("300mbit", "300mbits")),
    "rate without quotes": ("topology.toml", TOPOLOGY.replace('"300mbit"', "300")),
    "rate of nothing": ("topology.toml", TOPOLOGY.replace('"300mbit"', '"0mbit"')),
    "unknown machine": ("topology.toml", TOPOLOGY.replace('machine = "pm0"', 'machine = "pm9"')),
    "same name twice": ("topology.toml", TOPOLOGY.replace('name = "vm1"', 'name = "vm0"')),
    "host named as a switch": ("topology.toml", TOPOLOGY.replace('name = "vm1"', 'name = "tor0"')),
    "not a name": ("topology.toml", TOPOLOGY.replace('name = "vm1"', 'name = "VM 1"')),
    "switches in a circle": ("topology.toml", TOPOLOGY.replace('parent = "core"', 'parent = "tor0"')),
    "two roots": ("topology.toml", TOPOLOGY.replace('parent = "core"', "")),
    "two places": ("topology.toml", TOPOLOGY.replace('switch = "core"', 'switch = "core"\nmachine = "pm0"')),
    "MTU too small": ("topology.toml", TOPOLOGY.replace("cpus = 4.0", "mtu = 1000")),
    "MTU of a root": ("topology.toml", TOPOLOGY.replace('name = "core"', 'name = "core"\nmtu = 9000')),
    "two MTUs on a machine": (
        "topology.toml",
        TOPOLOGY + '[[host]]\nname = "vm9"\nmachine = "pm0"\nmtu = 1400\n',
    ),
    "infinite cpus": ("topology.toml", TOPOLOGY.replace("cpus = 4.0", "cpus = inf")),
    "unknown task": ("app.toml", APP.replace('target = "reduce-0"', 'target = "x"')),
    "negative bytes": ("app.toml", APP.replace("bytes = 104857600", "bytes = -1")),
    "unknown task apart": ("app.toml", APP.replace('["map-0", "reduce-0"]', '["map-0", "m"]')),
    "unknown task apart by zone": (
        "app.toml",
        APP.replace('[["map-0", "reduce-0"]]', '[{ tasks = ["map-0", "m"], by = "zone" }]'),
    ),
    "unknown key of a group": (
        "app.toml",
        APP.replace('[["map-0", "reduce-0"]]', '[{ tasks = ["map-0", "reduce-0"], bye = "zone" }]'),
    ),
    "negative price": ("app.toml", APP + "spread = [{ most = 1, price_s = -1 }]\n"),
    "no task in a zone": ("app.toml", APP + "spread = [{ most = 0 }]\n"),
    "label without values": ("app.toml", APP + 'labels = [{ key = "disk", values = [] }]\n'),
    "half a GPU": ("app.toml", APP.replace("cpus = 2", "resources = { gpu = 0.5 }")),
    "resource with a space": ("app.toml", APP.replace("cpus = 2", 'resources = { "my gpu" = 1 }')),
    "cores that stand still": ("hosts.toml", HOSTS + "core_speed = 0\n"),
    "unknown constraint": ("app.toml", APP.replace("pin =", "pins =")),
    "not an address": ("hosts.toml", HOSTS.replace("10.0.0.2", "10.0.0.256")),
    "not a route": ("hosts.toml", HOSTS.replace("unix:/run/x.sock", "x.sock")),
    "not JSON": ("network.json", "{"),
    "not a table": ("network.json", "[]"),
    "too few rows": ("network.json", change(NETWORK, rate_bps=[[None, 1.0]])),
    "too short a row": ("network.json", change(NETWORK, rate_bps=[[None, 1.0], [1.0]])),
    "rate of 0": ("network.json", change(NETWORK, rate_bps=[[None, 0], [1, None]])),
    "excess of one row": ("network.json", change(NETWORK, excess=[[None, 1.0]])),
    "negative excess": ("network.json", change(NETWORK, excess=[[None, 0], [-0.1, None]])),
    "infinite excess": ("network.json", change(NETWORK, excess=[[None, 0], [1e999, None]])),
    "NaN": ("network.json", '{"format": NaN}'),
    "endless digits of TOML": ("topology.toml", TOPOLOGY.replace("cpus = 4.0", f"cpus = {'9' * 5000}")),
    "endless digits of JSON": ("network.json", json.dumps(NETWORK).replace('"cpus": 4', f'"cpus": {"9" * 5000}')),
    "rate too high": ("network.json", change(NETWORK, rate_bps=[[None, 1e307], [1, None]])),
    "latency too long": ("network.json", change(NETWORK, latency_s=[[None, 0], [1.7e308, None]])),
    "memory too large": (
        "network.json",
        change(NETWORK, hosts=[{"name": "vm0", "memory_bytes": 2**64}, {"name": "vm1"}]),
    ),
    "App for Topology": ("topology.toml", APP),
    "Inventory for App": ("app.toml", HOSTS),
    "App for Network": ("network.json", APP),
    "Network for Inventory": ("hosts.toml", json.dumps(NETWORK)),
    "unknown format": ("placement.json", json.dumps({**PLACEMENT, "format": "x"})),
    "no format": ("placement.json", json.dumps({k: v for k, v in PLACEMENT.items() if k != "format"})),
    "not a host": ("placement.json", change(PLACEMENT, assignment={"map-0": 3})),
    "no format in a line": ("jsonl", '{"kind": "run"}'),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_names_file_field_and_remedy(tmp_path: Path, mistake: str, snapshot: SnapshotAssertion) -> None:
    suffix, text = MISTAKES[mistake]
    path = tmp_path / f"x.{suffix}"
    path.write_text(text)
    with pytest.raises(FormatError) as caught:
        READERS[suffix](path)
    assert caught.value.remedy
    assert "\n" not in str(caught.value)
    assert str(caught.value).replace(str(path), path.name) == snapshot


READERS: dict[str, Callable[[Path], Any]] = {
    "topology.toml": read_topology,
    "app.toml": read_app,
    "app.json": read_app,
    "hosts.toml": read_inventory,
    "network.json": read_network,
    "placement.json": read_placement,
    "jsonl": read_records,
}
TEXTS = {
    "topology.toml": TOPOLOGY,
    "app.toml": APP,
    "hosts.toml": HOSTS,
    "network.json": json.dumps(NETWORK),
    "placement.json": json.dumps(PLACEMENT),
    "jsonl": '{"format": "gavotte/record/1", "kind": "run", "metric": "x_s", "value": 1, "time_s": 2}',
}


@pytest.mark.parametrize("suffix", TEXTS)
def test_a_good_file_is_read(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"x.{suffix}"
    path.write_text(TEXTS[suffix])
    assert READERS[suffix](path)


def test_units_of_a_topology(tmp_path: Path) -> None:
    path = tmp_path / "x.topology.toml"
    path.write_text(TOPOLOGY)
    topology = read_topology(path)
    assert topology.host[0].egress == 300e6
    assert topology.host[0].burst == 512 * 1024
    assert topology.host[1].burst == 32 * 1024
    assert topology.switch[1].down_bps == 10e9


@pytest.mark.parametrize("suffix", READERS)
@given(content=st.binary(max_size=400))
@examples(60)
def test_any_bytes_give_a_noun_or_a_format_error(tmp_path: Path, suffix: str, content: bytes) -> None:
    path = tmp_path / f"x.{suffix}"
    path.write_bytes(content)
    try:
        READERS[suffix](path)
    except FormatError as error:
        assert "\n" not in str(error)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(("suffix", "document"), [("network.json", NETWORK), ("placement.json", PLACEMENT)])
@given(data=st.data())
@examples(150)
def test_any_value_in_any_place_gives_a_noun_or_a_format_error(
    tmp_path: Path, suffix: str, document: dict[str, Any], data: st.DataObject
) -> None:
    changed = json.loads(json.dumps(document))
    at: Any = changed
    while True:
        key = data.draw(st.sampled_from(sorted(at) if isinstance(at, dict) else list(range(len(at)))))
        if isinstance(at[key], (dict, list)) and at[key] and data.draw(st.booleans()):
            at = at[key]
            continue
        at[key] = data.draw(JSON_VALUES)
        break
    path = tmp_path / f"x.{suffix}"
    path.write_text(json.dumps(changed))
    try:
        READERS[suffix](path)
    except FormatError as error:
        assert "\n" not in str(error).replace("\\n", "")


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    app = App.model_validate({"format": "gavotte/app/1", "name": "a", "task": [{"name": "t"}]})
    for name in ("a.app.toml", "a.app.json"):
        write_app(tmp_path / name, app)
        assert read_app(tmp_path / name) == app
    network = Network.model_validate(NETWORK)
    write_network(tmp_path / "n.json", network)
    assert read_network(tmp_path / "n.json") == network
    placement = Placement.model_validate(PLACEMENT)
    write_placement(tmp_path / "p.json", placement)
    assert read_placement(tmp_path / "p.json") == placement
    records = [Record(kind="run", metric="x_s", value=1.5, time_s=2.0, labels={"a": None})]
    write_records(tmp_path / "r.jsonl", records)
    assert read_records(tmp_path / "r.jsonl") == records
    inventory = Inventory.model_validate(
        {"format": "gavotte/hosts/1", "host": [{"name": "a", "address": "::1", "agent": "unix:/a"}]}
    )
    write_inventory(tmp_path / "h.toml", inventory)
    assert read_inventory(tmp_path / "h.toml") == inventory


def test_a_failed_write_leaves_the_old_file_and_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    write_text(path, "old")
    with pytest.raises(FormatError, match="cannot be written"):
        write_text(tmp_path / "missing" / "x.json", "new")
    with pytest.raises(FormatError):
        write_text(tmp_path / ("n" * 300), "new")
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.json"]


def test_a_new_file_obeys_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_text(tmp_path / "x", "")
    finally:
        os.umask(before)
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("read", [read_network, read_app, read_records, read_flows, read_trace, read_byte_matrix])
def test_what_never_ends_is_not_read_to_its_end(read: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gavotte.formats.files.reading.MAX_PIPED_BYTES", 1 << 20)
    with pytest.raises(FormatError, match=r"^/dev/zero: is larger than 1048576 bytes; "):
        read(*("/dev/zero", ["a"])[: 2 if read is read_flows else 1])


def test_a_file_that_tells_its_size_is_refused_unread(tmp_path: Path) -> None:
    with (tmp_path / "n.network.json").open("wb") as sparse:
        sparse.truncate((1 << 30) + 1)
    with pytest.raises(FormatError, match="is larger than 1073741824 bytes"):
        read_network(tmp_path / "n.network.json")


def test_a_pipe_is_read_whole(tmp_path: Path) -> None:
    ends = os.pipe()
    with os.fdopen(ends[0], "rb") as reading:
        with os.fdopen(ends[1], "w") as writing:
            json.dump(NETWORK, writing)
        assert read_network(f"/dev/fd/{reading.fileno()}").names == ["vm0", "vm1"]


def test_a_message_does_not_repeat_thousands_of_characters() -> None:
    text = str(FormatError("f.csv", "line 2", f"`{'9' * 5000}` is not a number", "use e.g. 7"))
    assert len(text) < 400
    assert text.endswith("9` is not a number; use e.g. 7")
