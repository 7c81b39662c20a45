"""Every noun names file, field and remedy in one line, and never lets another exception out."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gavotte.errors import FormatError
from gavotte.formats.app import App, read_app, write_app
from gavotte.formats.inventory import Inventory, read_inventory, write_inventory
from gavotte.formats.network import Network, read_network, write_network
from gavotte.formats.placement import Placement, read_placement, write_placement
from gavotte.formats.reading import write_text
from gavotte.formats.record import Record, read_records, write_records
from gavotte.formats.topology import read_topology

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


@pytest.mark.parametrize(
    ("name", "text", "field", "said"),
    [
        ("t.topology.toml", "", "format", "is missing"),
        ("t.topology.toml", "x = = 1", "", "line 1"),
        ("t.topology.toml", TOPOLOGY.replace("topology/1", "topology/2"), "format", "gavotte/topology/1"),
        ("t.topology.toml", TOPOLOGY.replace("egress =", "egres ="), "host[0].egres", "did you mean `egress`?"),
        ("t.topology.toml", TOPOLOGY.replace("300mbit", "300mbits"), "host[0].egress", "300mbit"),
        ("t.topology.toml", TOPOLOGY.replace('"300mbit"', "300"), "host[0].egress", "in quotes"),
        ("t.topology.toml", TOPOLOGY.replace('"300mbit"', '"0mbit"'), "host[0].egress", "out of range"),
        ("t.topology.toml", TOPOLOGY.replace('machine = "pm0"', 'machine = "pm9"'), "host[0].machine", "pm0"),
        ("t.topology.toml", TOPOLOGY.replace('name = "vm1"', 'name = "vm0"'), "host[1].name", "host[0]"),
        ("t.topology.toml", TOPOLOGY.replace('name = "vm1"', 'name = "tor0"'), "host[1].name", "switch"),
        ("t.topology.toml", TOPOLOGY.replace('name = "vm1"', 'name = "VM 1"'), "host[1].name", "not a host name"),
        ("t.topology.toml", TOPOLOGY.replace('parent = "core"', 'parent = "tor0"'), "switch[1].parent", "circle"),
        ("t.topology.toml", TOPOLOGY.replace('parent = "core"', ""), "switch[1]", "no parent"),
        (
            "t.topology.toml",
            TOPOLOGY.replace('switch = "core"', 'switch = "core"\nmachine = "pm0"'),
            "host[1]",
            "one of",
        ),
        ("t.topology.toml", TOPOLOGY.replace("cpus = 4.0", "cpus = inf"), "host[0].cpus", "finite"),
        ("a.app.toml", APP.replace('target = "reduce-0"', 'target = "x"'), "transfer[0].target", "reduce-0"),
        ("a.app.toml", APP.replace("bytes = 104857600", "bytes = -1"), "transfer[0].bytes", "greater than or equal"),
        ("a.app.toml", APP.replace('["map-0", "reduce-0"]', '["map-0", "m"]'), "constraints.apart[0][1]", "map-0"),
        ("a.app.toml", APP.replace("pin =", "pins ="), "constraints.pins", "did you mean `pin`?"),
        ("h.hosts.toml", HOSTS.replace("10.0.0.2", "10.0.0.256"), "host[0].address", "IP literal"),
        ("h.hosts.toml", HOSTS.replace("10.0.0.2", "10.0.0.256"), "host[0].address", "IPv4"),
        ("h.hosts.toml", HOSTS.replace("unix:/run/x.sock", "x.sock"), "host[0].agent", "unix:"),
        ("n.network.json", "{", "", "line 1"),
        ("n.network.json", "[]", "", "table"),
        ("n.network.json", change(NETWORK, rate_bps=[[None, 1.0]]), "rate_bps", "1 rows for 2 hosts"),
        ("n.network.json", change(NETWORK, rate_bps=[[None, 1.0], [1.0]]), "rate_bps[1]", "1 entries"),
        ("n.network.json", change(NETWORK, rate_bps=[[None, 0], [1, None]]), "rate_bps[0][1]", "greater than 0"),
        ("n.network.json", change(NETWORK, excess=[[None, 1.0]]), "excess", "1 rows for 2 hosts"),
        (
            "n.network.json",
            change(NETWORK, excess=[[None, 0], [-0.1, None]]),
            "excess[1][0]",
            "greater than or equal to 0",
        ),
        ("n.network.json", change(NETWORK, excess=[[None, 0], [1e999, None]]), "", "Infinity"),
        ("n.network.json", '{"format": NaN}', "", "NaN"),
        ("p.placement.json", json.dumps({**PLACEMENT, "format": "x"}), "format", "gavotte/placement/1"),
        (
            "p.placement.json",
            json.dumps({k: v for k, v in PLACEMENT.items() if k != "format"}),
            "format",
            "placement/1",
        ),
        ("p.placement.json", change(PLACEMENT, assignment={"map-0": 3}), "assignment.map-0", "string"),
        ("r.jsonl", '{"kind": "run"}', "format", "missing"),
    ],
)
def test_a_mistake_names_file_field_and_remedy(tmp_path: Path, name: str, text: str, field: str, said: str) -> None:
    if (name, said) == ("h.hosts.toml", "IP literal"):
        said = "not an IP address"
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(FormatError) as caught:
        READERS[name.split(".", 1)[1]](path)
    error = caught.value
    assert error.field == field
    assert said in str(error)
    assert str(path) in str(error)
    assert error.remedy
    assert "\n" not in str(error)


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
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
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
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150, deadline=None)
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
