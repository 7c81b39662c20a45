"""DNS names as addresses of hosts: which an Inventory accepts, and how the controller resolves them."""

from __future__ import annotations

import re
import socket

import pytest
from pydantic import ValidationError

from gavotte.agents import with_addresses
from gavotte.agents.addresses import addressed
from gavotte.errors import GavotteError
from gavotte.formats.inventory import Inventory


def inventory(*addresses: str) -> Inventory:
    hosts = [{"name": f"h{i}", "address": text, "agent": f"ssh://h{i}"} for i, text in enumerate(addresses)]
    return Inventory.model_validate({"format": "gavotte/hosts/1", "host": hosts})


@pytest.mark.parametrize("address", ["web1.example", "Node01", "10.0.0.1", "fd00::1", "fe80::1%eth0"])
def test_names_and_ip_addresses_are_accepted(address: str) -> None:
    assert inventory(address).host[0].address == address


@pytest.mark.parametrize(
    "address", ["", "10.0.0.300", "10.0.0", "a b", "-a", "a..b", "fd00::g", "http://a", "fe80::1", "fe80::1%a b"]
)
def test_other_texts_are_refused(address: str) -> None:
    with pytest.raises(ValidationError):
        inventory(address)


def test_ip_addresses_need_no_lookup() -> None:
    given = inventory("10.0.0.1", "fd00::1")
    assert with_addresses(given) is given


def test_the_only_host_may_be_this_machine() -> None:
    result = with_addresses(inventory("localhost")).host[0].address
    assert result in {answer[4][0] for answer in socket.getaddrinfo("localhost", None)}


def test_a_name_that_no_other_host_can_use_costs_its_host_alone() -> None:
    given = inventory("10.0.0.1", "nowhere.invalid", "localhost")
    result, unresolved = addressed(given)
    assert [host.address for host in result.host] == ["10.0.0.1", "nowhere.invalid", "localhost"]
    assert sorted(unresolved) == ["h1", "h2"]
    assert unresolved["h1"].startswith("its address `nowhere.invalid` does not resolve here (")
    assert re.fullmatch(r"its address `localhost` resolves to .*, which others cannot reach", unresolved["h2"])


def test_two_hosts_cannot_share_an_address() -> None:
    numeric = inventory("10.0.0.1", "nowhere.invalid")
    # The system's resolver accepts this spelling of 10.0.0.1, though an Inventory does not.
    twin = numeric.host[1].model_copy(update={"address": "0x0a000001"})
    _, unresolved = addressed(numeric.model_copy(update={"host": [numeric.host[0], twin]}))
    assert unresolved == {"h1": "its address `0x0a000001` resolves to 10.0.0.1, which is also that of h0"}


def test_callers_that_need_every_host_get_an_error() -> None:
    with pytest.raises(GavotteError, match=r"host `h1`: its address `nowhere\.invalid` does not resolve here"):
        with_addresses(inventory("10.0.0.1", "nowhere.invalid"))


def test_further_addresses_are_looked_up_too() -> None:
    given = inventory("10.0.0.1", "10.0.0.2")
    # The system's resolver accepts this spelling of 10.0.0.1, though an Inventory does not.
    further = {"addresses": ["192.0.2.1", "nowhere.invalid", "0x0a000001"]}
    hosts = [given.host[0].model_copy(update=further), given.host[1]]
    result, unresolved = addressed(given.model_copy(update={"host": hosts}))
    assert result.host[0].addresses == ["192.0.2.1", "10.0.0.1"]
    assert unresolved == {}


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("fe80::1", r"`fe80::1` is a link-local address without a zone"),
        ("fd00::1%eth0", r"`fd00::1%eth0` has a zone `eth0`"),
        ("fe80::1%interface-of-16-", r"has a zone `interface-of-16-`"),
    ],
)
def test_a_zone_belongs_to_a_link_local_address(address: str, says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        inventory(address)
