"""Host names in another case than the inventory's: in transfers of the queue, and in the Network of a broadcast."""

from __future__ import annotations

import pytest
from tests import builders

from gavotte.errors import GavotteError
from gavotte.formats.inventory import Inventory
from gavotte.formats.parts.byte_matrix import HostBytes
from gavotte.formats.parts.transfer import Copies, MemoryQueue
from gavotte.transfer.control import Controller
from gavotte.transfer.spelling import spelled_network

HOSTS = ("Node01", "x_1", "web1.example.com")


@pytest.fixture
def inventory() -> Inventory:
    return builders.inventory(HOSTS)


def test_the_queue_spells_hosts_as_the_inventory_does(inventory: Inventory) -> None:
    controller = Controller(inventory, builders.network(["NODE01", "X_1", "WEB1.example.com"], 1e8), MemoryQueue())
    shuffle = controller.submit([HostBytes("node01", "X_1", 10)])
    assert [(flow.source, flow.target) for flow in shuffle.flows] == [("Node01", "x_1")]
    copies = Copies("/x", "NODE01", "/y-{host}")
    model = controller.submit([HostBytes("node01", "X_1", 0)], copies=copies)
    assert model.copies is not None
    assert model.copies.source == "Node01"
    joined = controller.join(model.id, "Web1.Example.Com", "/mine-{host}")
    assert [flow.target for flow in joined.flows] == ["x_1", "web1.example.com"]
    assert joined.copies is not None
    assert joined.copies.elsewhere == {"web1.example.com": "/mine-web1.example.com"}
    with pytest.raises(GavotteError, match="is a receiver of transfer"):
        controller.join(model.id, "X_1")


def test_a_network_keeps_its_groups() -> None:
    groups = [{"name": "rack", "members": ["NODE01", "X_1"]}]
    spelled = spelled_network(builders.network(["NODE01", "X_1", "other"], 1e8, groups=groups), HOSTS)
    assert spelled.names == ["Node01", "x_1", "other"]
    assert spelled.groups[0].members == ["Node01", "x_1"]
