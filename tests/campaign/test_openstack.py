"""Endpoints from OpenStack: compared with recorded conversations with real services, and with the services themselves.

`make test-openstack` starts Keystone, Nova, Neutron, Glance and Placement (`tests/campaign/cloud`) and runs this file
with `GAVOTTE_OPENSTACK=real`, or `record`, which writes the conversations again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.campaign.conversations import played, recorded
from tests.campaign.studies import campaign

from gavotte.campaign.drivers import openstack as driver
from gavotte.errors import GavotteError
from gavotte.formats.campaign import Campaign

pytestmark = pytest.mark.filterwarnings("ignore::Warning:openstack", "ignore::Warning:keystoneauth1")

MODE = os.environ.get("GAVOTTE_OPENSTACK", "")
RECORDINGS = Path(__file__).parent / "recorded"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB1nWcwF5jH0kzYt0nXf3uVbJqk5fM7yq8m0r2u1a9bC"
LOGIN = {
    "OS_AUTH_URL": "http://127.0.0.1:5000/v3",
    "OS_USERNAME": "admin",
    "OS_PASSWORD": "pw",
    "OS_PROJECT_NAME": "admin",
    "OS_USER_DOMAIN_ID": "default",
    "OS_PROJECT_DOMAIN_ID": "default",
    "OS_IDENTITY_API_VERSION": "3",
    "OS_REGION_NAME": "R",
}
SERVERS = [
    {"name": "a", "flavor": "tiny"},
    {"name": "c", "flavor": "tiny", "same_host_as": "a"},
    {"name": "b", "flavor": "tiny", "other_host_than": "a"},
]


def study(name: str, servers: list[dict[str, Any]] = SERVERS, **more: Any) -> Campaign:
    made_by = {"kind": "openstack", "image": "im", "network": "net", "server": servers, "wait_s": 120.0, **more}
    ends = {"source": [servers[0]["name"]], "target": [servers[-1]["name"]]}
    return (
        campaign(ends, name=name, driver=made_by)
        if len(servers) > 1
        else campaign(ends | {"kind": "loopback", "target": []}, name=name, driver=made_by)
    )


@contextmanager
def cloud(name: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Return a connection to the services, recorded or not, or to their recorded answers."""
    for key, value in LOGIN.items():
        monkeypatch.setenv(key, value)
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", "/nonexistent")
    path = RECORDINGS / f"{name}.json"
    if MODE == "real":
        yield driver.connected("")
    elif MODE == "record":
        RECORDINGS.mkdir(exist_ok=True)
        with recorded(path):
            yield driver.connected("")
    else:
        # Recorded servers need no waiting.
        monkeypatch.setattr("time.sleep", lambda _seconds: None)
        with played(path):
            yield driver.connected("")


def left(connection: Any, mark: str) -> list[str]:
    return [each.name for each in connection.compute.servers() if each.metadata.get(driver.MARK) == mark]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_servers_are_made_where_hints_say_and_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = study("places")
    with cloud("places", monkeypatch) as connection:
        servers = driver.Servers(connection, asked.driver, driver.mark_of(asked))
        made = servers.make(KEY)
        machine = {name: servers.machine(server) for name, server in made.items()}
        assert machine["a"] == machine["c"] != machine["b"]
        inventory = driver.inventory_of(made, machine, asked.driver, "/nonexistent/config")
        assert [host.name for host in inventory.host] == ["a", "c", "b"]
        assert all(host.agent == f"ssh://debian@{host.address}" for host in inventory.host)
        assert len(left(connection, driver.mark_of(asked))) == 3
        # A run that was killed at this point would leave them; the next one begins by deleting them.
        again = driver.Servers(connection, asked.driver, driver.mark_of(asked))
        again.delete()
        assert left(connection, driver.mark_of(asked)) == []


@pytest.mark.timeout(900)
def test_what_the_cloud_does_not_have_is_named_and_nothing_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    with cloud("lacking", monkeypatch) as connection:
        for key, value, says in (
            ("server", [{"name": "a", "flavor": "huge"}], "no flavor `huge`"),
            ("image", "other", "no image `other`"),
            ("network", "other", "no network `other`"),
        ):
            asked = study("lacking", [{"name": "a", "flavor": "tiny"}])
            wrong = asked.model_copy(
                update={
                    "driver": asked.driver.model_validate(asked.driver.model_dump(exclude_unset=True) | {key: value})
                }
            )
            servers = driver.Servers(connection, wrong.driver, driver.mark_of(wrong))
            with pytest.raises(GavotteError, match=says):
                servers.make(KEY)
            servers.delete()
        assert left(connection, driver.mark_of(study("lacking"))) == []


@pytest.mark.timeout(900)
def test_servers_that_nobody_can_reach_are_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fake virtualisation driver boots no server, so SSH fails. After every failure, no server stays."""
    asked = study("unreachable", [{"name": "a", "flavor": "tiny"}], wait_s=40.0)
    if MODE != "real":  # no packet goes to an address that only the recorded cloud had

        def nobody(*_: Any) -> Any:
            raise GavotteError("host a cannot be reached: ssh: connect to host: Connection refused")

        monkeypatch.setattr(driver, "_reached", nobody)
    with cloud("unreachable", monkeypatch) as connection:
        monkeypatch.setattr(driver, "connected", lambda _cloud: connection)
        with pytest.raises(GavotteError, match="cannot be reached"), driver.in_openstack(asked):
            pytest.fail("it was reached")
        assert left(connection, driver.mark_of(asked)) == []


def test_hints_go_in_order_and_not_round_in_a_circle() -> None:
    names = [{"name": "x", "flavor": "f", "same_host_as": "y"}, {"name": "y", "flavor": "f"}]
    assert [each.name for each in driver.in_order(study("order", names).driver.server)] == ["y", "x"]
    circle = [names[0], {"name": "y", "flavor": "f", "other_host_than": "x"}]
    with pytest.raises(GavotteError, match="a circle"):
        driver.in_order(study("order", circle).driver.server)
    with pytest.raises(GavotteError, match="no server of the campaign"):
        driver.in_order(study("order", [names[0]]).driver.server)
