"""Hosts from the JSON listings of clouds, Kubernetes, Ansible and Terraform, and hosts for other tools."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.shell import gavotte

from gavotte.agents import resolve_hosts
from gavotte.agents.sources.listings import Listing, from_listings
from gavotte.agents.sources.mpi import parse_hostfile
from gavotte.agents.sources.ssh_config import aliases
from gavotte.errors import FormatError, GavotteError
from gavotte.formats.inventory import Inventory
from gavotte.hosts.exporting import FORMS, exported


def aws_instance(ident: str, address: str, name: str = "", state: str = "running", **more: Any) -> dict[str, Any]:
    tags = [{"Key": "team", "Value": "a"}, *([{"Key": "Name", "Value": name}] if name else [])]
    return {
        "InstanceId": ident,
        "InstanceType": "hpc7g.16xlarge",
        "PrivateIpAddress": address,
        "State": {"Code": 16, "Name": state},
        "Placement": {"AvailabilityZone": "eu-north-1a", "GroupName": "cluster", "Tenancy": "default"},
        "Tags": tags,
        **more,
    }


AWS = {
    "Reservations": [
        {"ReservationId": "r-1", "Instances": [aws_instance("i-1", "10.0.0.1", "web1", PublicIpAddress="203.0.113.7")]},
        {
            "ReservationId": "r-2",
            "Instances": [
                aws_instance("i-2", "10.0.0.2", "worker"),
                aws_instance("i-3", "10.0.0.3", "worker", Ipv6Address="2001:db8::3"),
                aws_instance("i-4", "10.0.0.4", "old", "stopped"),
            ],
        },
    ]
}
AWS_TOPOLOGY = {
    "Instances": [
        {
            "InstanceId": "i-1",
            "InstanceType": "hpc7g.16xlarge",
            "GroupName": "cluster",
            "NetworkNodes": ["nn-1", "nn-2", "nn-4"],
            "AvailabilityZone": "eu-north-1a",
            "ZoneId": "eun1-az1",
            "CapacityBlockId": None,
        },
        {"InstanceId": "i-2", "NetworkNodes": None},
    ]
}
GOOGLE = [
    {
        "name": "vm-1",
        "status": "RUNNING",
        "zone": "https://www.googleapis.com/compute/v1/projects/p/zones/us-central1-a",
        "networkInterfaces": [
            {"networkIP": "10.128.0.2", "accessConfigs": [{"name": "External NAT", "natIP": "203.0.113.9"}]},
            {"networkIP": "10.129.0.2"},
        ],
        "resourceStatus": {"physicalHostTopology": {"cluster": "c", "block": "b1", "subblock": "s1", "host": "h1"}},
    },
    {
        "name": "vm-2",
        "status": "TERMINATED",
        "zone": "https://www.googleapis.com/compute/v1/projects/p/zones/us-central1-a",
        "networkInterfaces": [{"networkIP": "10.128.0.3"}],
    },
]
AZURE = [
    {
        "id": "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachines/vm1",
        "name": "vm1",
        "location": "westeurope",
        "zones": ["1"],
        "powerState": "VM running",
        "privateIps": "10.1.0.4,10.1.0.5",
        "publicIps": "",
        "tags": None,
    },
    {"name": "vm2", "powerState": "VM deallocated", "privateIps": "10.1.0.6", "publicIps": "203.0.113.2"},
]
AZURE_ADDRESSES = [
    {
        "virtualMachine": {
            "name": "vm1",
            "resourceGroup": "g",
            "network": {"privateIpAddresses": ["10.1.0.4"], "publicIpAddresses": [{"ipAddress": "203.0.113.1"}]},
        }
    }
]
OPENSTACK = [
    {
        "ID": "5f3c1cfa-7a09-4d71-9b6e-0f3f2d5b5b0e",
        "Name": "node-1",
        "Status": "ACTIVE",
        "Networks": {"private": ["10.2.0.5", "203.0.113.5"]},
        "Image": "debian",
        "Flavor": "m1.large",
    },
    {"ID": "e1", "Name": "node 2", "Status": "ACTIVE", "Networks": "private=10.2.0.6, fd00::6; storage=10.3.0.6"},
    {"ID": "e2", "Name": "node-3", "Status": "SHUTOFF", "Networks": {"private": ["10.2.0.7"]}},
]
KUBERNETES: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "List",
    "items": [
        {
            "kind": "Node",
            "metadata": {
                "name": f"node{number}",
                "labels": {"fabric.topograph.run/tier-0": "r1", "kubernetes.io/os": "linux"},
            },
            "status": {
                "addresses": [
                    {"type": "Hostname", "address": f"node{number}"},
                    {"type": "InternalIP", "address": f"10.4.0.{number}"},
                ],
                "conditions": [{"type": "DiskPressure", "status": "False"}, {"type": "Ready", "status": ready}],
            },
        }
        for number, ready in ((1, "True"), (2, "Unknown"))
    ],
}
PODS: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "List",
    "items": [
        {
            "kind": "Pod",
            "metadata": {"name": f"{app}-{number}", "labels": {"app.kubernetes.io/name": app}},
            "spec": {
                "nodeName": f"node{number}",
                "containers": [
                    {"name": "gavotte-agent", "ports": [{"name": "control", "containerPort": 7500, "protocol": "TCP"}]}
                ],
            },
            "status": {
                "podIP": f"10.45.0.{number}",
                "conditions": [{"type": "Initialized", "status": "True"}, {"type": "Ready", "status": ready}],
            },
        }
        for number, app, ready in (
            (1, "gavotte-agent", "True"),
            (2, "gavotte-agent", "False"),
            (3, "gavotte-agent", "True"),
            (3, "web", "True"),
        )
    ],
}
ANSIBLE = {
    "_meta": {
        "hostvars": {
            "db1": {"ansible_host": "10.5.0.3", "ansible_user": "ada", "ansible_port": 2222},
            "here": {"ansible_connection": "local"},
        }
    },
    "all": {"children": ["ungrouped", "web"]},
    "web": {"hosts": ["10.5.0.1", "10.5.0.2"]},
    "ungrouped": {"hosts": ["db1", "here"]},
}


def resource(kind: str, index: int | None, **values: Any) -> dict[str, Any]:
    place = "" if index is None else f"[{index}]"
    more = {} if index is None else {"index": index}
    return {"address": f"{kind}.n{place}", "mode": "managed", "type": kind, "name": "n", **more, "values": values}


STATE = {
    "format_version": "1.0",
    "terraform_version": "1.9.0",
    "values": {
        "root_module": {
            "resources": [
                resource("aws_instance", 0, private_ip="10.6.0.1", public_ip="203.0.113.61", tags={"Name": "head"}),
                resource("aws_instance", 1, private_ip="10.6.0.2", public_ip="", tags=None),
                resource("aws_vpc", None, cidr_block="10.6.0.0/16"),
            ],
            "child_modules": [
                {
                    "resources": [
                        resource(
                            "google_compute_instance", None, name="g", network_interface=[{"network_ip": "10.6.1.1"}]
                        )
                    ]
                }
            ],
        }
    },
}
OUTPUTS = {
    "vpc": {"sensitive": False, "type": "string", "value": "vpc-1"},
    "hosts": {"sensitive": False, "type": ["map", "string"], "value": {"a": "10.7.0.1", "b": "10.7.0.2"}},
}


def of(folder: Path, *documents: Any, **options: Any) -> Listing:
    paths = [folder / f"{number}.json" for number in range(len(documents))]
    for path, document in zip(paths, documents, strict=True):
        path.write_text(json.dumps(document))
    return from_listings(paths, **options)


def addresses(inventory: Inventory) -> dict[str, str]:
    return {host.name: host.address for host in inventory.host}


@pytest.mark.parametrize(
    ("document", "hosts", "absent"),
    [
        (AWS, {"web1": "10.0.0.1", "i-2": "10.0.0.2", "i-3": "10.0.0.3"}, {"old": "stopped"}),
        (GOOGLE, {"vm-1": "10.128.0.2"}, {"vm-2": "terminated"}),
        (AZURE, {"vm1": "10.1.0.4"}, {"vm2": "deallocated"}),
        (AZURE_ADDRESSES, {"vm1": "10.1.0.4"}, {}),
        (OPENSTACK, {"node-1": "10.2.0.5", "e1": "10.2.0.6"}, {"node-3": "shutoff"}),
        (KUBERNETES, {"node1": "10.4.0.1"}, {"node2": "not ready"}),
        (PODS, {"node1": "10.45.0.1", "node3": "10.45.0.3"}, {"node2": "its agent is not ready"}),
        (ANSIBLE, {"10.5.0.1": "10.5.0.1", "10.5.0.2": "10.5.0.2", "db1": "10.5.0.3"}, {"here": "not reached by SSH"}),
        (STATE, {"head": "10.6.0.1", "n-1": "10.6.0.2", "g": "10.6.1.1"}, {}),
        (OUTPUTS, {"a": "10.7.0.1", "b": "10.7.0.2"}, {}),
        (["10.7.0.1", "10.7.0.2"], {"10.7.0.1": "10.7.0.1", "10.7.0.2": "10.7.0.2"}, {}),
        ([{"name": "a", "private_ip": "10.7.0.1", "public_ip": "203.0.113.1"}], {"a": "10.7.0.1"}, {}),
    ],
    ids=[
        "aws",
        "google",
        "azure",
        "addresses",
        "openstack",
        "nodes",
        "pods",
        "ansible",
        "state",
        "outputs",
        "list",
        "objects",
    ],
)
def test_a_listing_is_recognised(tmp_path: Path, document: Any, hosts: dict[str, str], absent: dict[str, str]) -> None:
    listing = of(tmp_path, document)
    assert addresses(listing.inventory) == hosts
    assert listing.absent == absent


def test_agents_are_reached_as_the_listing_says(tmp_path: Path) -> None:
    routes = {host.name: host.agent for host in of(tmp_path, ANSIBLE, user="root").inventory.host}
    assert routes == {
        "10.5.0.1": "ssh://root@10.5.0.1",
        "10.5.0.2": "ssh://root@10.5.0.2",
        "db1": "ssh://ada@10.5.0.3:2222",
    }
    routes = {host.name: host.agent for host in of(tmp_path, AWS, public=True).inventory.host}
    assert routes == {"web1": "ssh://203.0.113.7", "i-2": "ssh://10.0.0.2", "i-3": "ssh://10.0.0.3"}
    # The second server has a fixed address of each family, and another one in a network for storage.
    routes = {host.name: host.agent for host in of(tmp_path, OPENSTACK, public=True).inventory.host}
    assert routes == {"node-1": "ssh://203.0.113.5", "e1": "ssh://10.2.0.6"}


@pytest.mark.parametrize("documents", [(KUBERNETES, PODS), (PODS, KUBERNETES)], ids=["nodes first", "pods first"])
def test_agents_that_run_as_pods_are_reached_at_the_pods(tmp_path: Path, documents: tuple[Any, Any]) -> None:
    listing = of(tmp_path, *documents)
    assert {host.name: (host.address, host.agent, host.labels) for host in listing.inventory.host} == {
        "node1": ("10.45.0.1", "tls://10.45.0.1:7500?name=gavotte-agent", {"fabric.topograph.run/tier-0": "r1"}),
        "node3": ("10.45.0.3", "tls://10.45.0.3:7500?name=gavotte-agent", {}),
    }
    assert set(listing.absent) == {"node2"}
    nodes = {"kind": "List", "items": [{**KUBERNETES["items"][0], "metadata": {"name": "bare"}}]}
    assert of(tmp_path, nodes, PODS).absent["bare"] == "no agent runs there"


def test_places_become_labels(tmp_path: Path) -> None:
    zone = {"topology.kubernetes.io/zone": "eu-north-1a"}
    layers = {
        f"topology.k8s.aws/network-node-layer-{layer}": node for layer, node in ((1, "nn-1"), (2, "nn-2"), (3, "nn-4"))
    }
    labels = {host.name: host.labels for host in of(tmp_path, AWS, AWS_TOPOLOGY).inventory.host}
    assert labels == {"web1": {**zone, **layers}, "i-2": zone, "i-3": zone}
    assert of(tmp_path, GOOGLE).inventory.host[0].labels == {
        "topology.kubernetes.io/zone": "us-central1-a",
        "cloud.google.com/gce-topology-block": "b1",
        "cloud.google.com/gce-topology-subblock": "s1",
        "cloud.google.com/gce-topology-host": "h1",
    }
    assert of(tmp_path, KUBERNETES).inventory.host[0].labels == {"fabric.topograph.run/tier-0": "r1"}


def test_further_addresses_are_kept(tmp_path: Path) -> None:
    assert of(tmp_path, AWS).inventory.host[2].addresses == ["2001:db8::3"]
    assert of(tmp_path, GOOGLE).inventory.host[0].addresses == ["10.129.0.2"]


def test_names_are_chosen_by_patterns(tmp_path: Path) -> None:
    assert list(addresses(of(tmp_path, AWS, match="web*,i-3").inventory)) == ["web1", "i-3"]
    with pytest.raises(FormatError, match="no host matches `x`"):
        of(tmp_path, AWS, match="x")


AZURE_BARE = [{"name": "vm1", "networkProfile": {"networkInterfaces": [{"id": "/subscriptions/s"}]}}]
TWO_OUTPUTS = {**OUTPUTS, "more": {"sensitive": False, "value": ["10.7.0.3"]}}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({}, "is not a known listing of hosts; use the output of one of `aws ec2 describe-instances`"),
        ([], "is not a known listing of hosts"),
        (3, "is not a known listing of hosts"),
        (
            {"Reservations": [{"Instances": [{"State": {"Name": "running"}}]}]},
            "Reservations[0].Instances[0].InstanceId",
        ),
        ({"Reservations": []}, "names no host"),
        (AWS_TOPOLOGY, "Instances[0]: `i-1` has no address"),
        ({"kind": "PodList", "items": []}, "has no pod with app.kubernetes.io/name=gavotte-agent on a node"),
        ({**PODS, "items": PODS["items"][:1] * 2}, "items[1]: is another agent on `node1`; list one namespace"),
        (AZURE_BARE, "lists machines without addresses; use `az vm list --show-details`"),
        ([GOOGLE[1]], "no host runs; vm-2: terminated"),
        ({"_meta": {"hostvars": {"a": {"ansible_port": "x"}}}}, "_meta.hostvars.a.ansible_port: `x` is not a port"),
        ({"_meta": {}, "web": {"hosts": "a"}}, "web.hosts: is not a list of names"),
        ({"format_version": "1.0", "values": {}}, "has no resource that is known as a machine"),
        ({"vpc": OUTPUTS["vpc"]}, "has no output with addresses"),
        (TWO_OUTPUTS, "has 2 outputs with addresses: hosts, more; choose one: `terraform output -json hosts`"),
        ({"a": "10.7.0.1", "b": "10.7.0.1"}, "are both 10.7.0.1"),
        ([{"x": 1}], "has no addresses"),
    ],
)
def test_errors_name_file_place_and_remedy(tmp_path: Path, document: Any, message: str) -> None:
    with pytest.raises(GavotteError) as raised:
        of(tmp_path, document)
    text = f"{raised.value}"
    assert "0.json" in text
    assert message in text
    assert "\n" not in text


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 99999) | st.sampled_from(["10.0.0.1", "web1", "", "running", "ID"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["Instances", "name", "hosts"]), inner),
    max_leaves=8,
)
SAMPLES = [AWS, AWS_TOPOLOGY, GOOGLE, AZURE, AZURE_ADDRESSES, OPENSTACK, KUBERNETES, PODS, ANSIBLE, STATE, OUTPUTS]


def places(document: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of each value of a document."""
    keys = document if isinstance(document, dict) else range(len(document)) if isinstance(document, list) else ()
    return [path, *(below for key in keys for below in places(document[key], (*path, key)))]


@given(st.data())
def test_fuzz(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """A damaged listing is read or refused in one line."""
    document = json.loads(json.dumps(data.draw(st.sampled_from(SAMPLES))))
    path = data.draw(st.sampled_from(places(document)))
    value = data.draw(VALUES)
    if not path:
        document = value
    else:
        holder = document
        for key in path[:-1]:
            holder = holder[key]
        holder[path[-1]] = value
    file = tmp_path_factory.mktemp("damaged") / "l.json"
    file.write_text(json.dumps(document))
    try:
        assert from_listings([file]).inventory.host
    except GavotteError as error:
        assert "\n" not in str(error)


def test_the_command(tmp_path: Path) -> None:
    (tmp_path / "aws.json").write_text(json.dumps(AWS))
    (tmp_path / "places.json").write_text(json.dumps(AWS_TOPOLOGY))
    listings = ("--listing", "aws.json", "--listing", "places.json")
    done = gavotte("hosts", "import", *listings, "--user", "ada", "-o", "my.hosts.toml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "warning: old: left out: stopped\n3 hosts in my.hosts.toml\n"
    inventory = resolve_hosts(str(tmp_path / "my.hosts.toml"))
    assert [host.agent for host in inventory.host] == ["ssh://ada@10.0.0.1", "ssh://ada@10.0.0.2", "ssh://ada@10.0.0.3"]
    with (tmp_path / "aws.json").open() as stdin:
        done = gavotte("hosts", "import", "--listing", "-", "--json", cwd=tmp_path, stdin=stdin)
    assert [host["name"] for host in json.loads(done.stdout)["host"]] == ["web1", "i-2", "i-3"]
    done = gavotte("hosts", "list", "--hosts", "listing:aws.json", "--json", cwd=tmp_path)
    assert [host["name"] for host in json.loads(done.stdout)["host"]] == ["web1", "i-2", "i-3"]
    done = gavotte("hosts", "import", "--slurm", "--user", "ada", cwd=tmp_path)
    assert done.returncode == 2
    assert "--user and --public belong to --listing" in done.stderr


HOSTS = """format = "gavotte/hosts/1"
[[host]]
name = "web1"
address = "10.0.0.1"
agent = "ssh://ada@web1.example:2222"
cpus = 4
[[host]]
name = "db"
address = "10.0.0.2"
agent = "unix:/run/agent.sock"
"""


def test_hosts_for_other_tools(tmp_path: Path) -> None:
    (tmp_path / "my.hosts.toml").write_text(HOSTS)
    inventory = resolve_hosts(str(tmp_path / "my.hosts.toml"))
    assert exported(inventory, "ansible") == (
        "[gavotte]\nweb1 ansible_host=web1.example ansible_user=ada ansible_port=2222\ndb ansible_host=10.0.0.2\n"
    )
    config = exported(inventory, "ssh-config")
    assert aliases(config, "config") == ["web1", "db"]
    assert "    HostName web1.example\n    User ada\n    Port 2222\n" in config
    for form in ("openmpi", "mpich"):
        entries = parse_hostfile(exported(inventory, form), "hosts")
        assert [(each.host, each.slots) for each in entries] == [("web1.example", 4), ("10.0.0.2", 1)]
    with pytest.raises(GavotteError, match="unknown format `x`"):
        exported(inventory, "x")
    done = gavotte(
        "hosts", "export", "--hosts", "my.hosts.toml", "--format", "ansible", "-o", "hosts.ini", cwd=tmp_path
    )
    assert (done.returncode, done.stderr) == (0, "hosts.ini written\n")
    assert (tmp_path / "hosts.ini").read_text() == exported(inventory, "ansible")
    done = gavotte("hosts", "export", "--hosts", "my.hosts.toml", "--format", "mpich", "--json", cwd=tmp_path)
    document = {"format": "mpich", "hosts": ["web1", "db"], "text": exported(inventory, "mpich")}
    assert json.loads(done.stdout) == document
    assert json.loads(exported(inventory, "terraform")) == {
        "gavotte_hosts": {host.name: host.address for host in inventory.host}
    }
    assert set(FORMS) == {"ansible", "ssh-config", "openmpi", "mpich", "terraform"}


ANSIBLE_INVENTORY = os.environ.get("GAVOTTE_ANSIBLE") or shutil.which("ansible-inventory")
"""Ansible's own reader of inventories."""


@pytest.mark.slow
@pytest.mark.skipif(ANSIBLE_INVENTORY is None, reason="`make test-ansible` runs it with a real Ansible")
def test_ansible_reads_the_inventory(tmp_path: Path) -> None:
    assert ANSIBLE_INVENTORY is not None
    hosts = [
        {"name": "web1", "address": "10.0.0.1", "agent": "ssh://ada@203.0.113.5:2222"},
        {"name": "Node_2.example.com", "address": "2001:db8::3", "agent": "ssh://[2001:db8::3]"},
        {"name": "db", "address": "10.0.0.2", "agent": "unix:/run/agent.sock"},
    ]
    inventory = Inventory.model_validate({"format": "gavotte/hosts/1", "host": hosts})
    (tmp_path / "hosts.ini").write_text(exported(inventory, "ansible"))
    line = [ANSIBLE_INVENTORY, "-i", "hosts.ini", "--list"]
    environment = os.environ | {"ANSIBLE_HOME": str(tmp_path), "ANSIBLE_INVENTORY_UNPARSED_FAILED": "1"}
    ran = subprocess.run(line, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    document = json.loads(ran.stdout)
    assert document["gavotte"]["hosts"] == inventory.names
    assert document["_meta"]["hostvars"] == {
        "web1": {"ansible_host": "203.0.113.5", "ansible_user": "ada", "ansible_port": 2222},
        "Node_2.example.com": {"ansible_host": "2001:db8::3"},
        "db": {"ansible_host": "10.0.0.2"},
    }
    (tmp_path / "listing.json").write_text(ran.stdout)
    again = from_listings([tmp_path / "listing.json"]).inventory
    assert [(host.name, host.agent) for host in again.host] == [
        ("web1", "ssh://ada@203.0.113.5:2222"),
        ("Node_2.example.com", "ssh://[2001:db8::3]"),
        ("db", "ssh://10.0.0.2"),
    ]
