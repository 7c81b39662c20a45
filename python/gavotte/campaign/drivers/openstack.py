"""Endpoints in OpenStack: servers from an image and flavours, placed by hints, and always deleted at the end."""

from __future__ import annotations

import logging
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gavotte.campaign.drivers.ssh import HostEndpoints
from gavotte.errors import GavotteError
from gavotte.extras import needs
from gavotte.formats.campaign import Campaign, Driver, Server
from gavotte.formats.inventory import FORMAT, Inventory

logger = logging.getLogger(__name__)

MARK = "gavotte_campaign"
"""Metadata key of every server that a campaign creates. The next run finds the servers of a killed run by it."""
GONE_LIMIT_S = 120.0
RETRY_S = 5.0
TENANT = "tenant"


class Servers:
    """The servers of one campaign.

    Args:
        connection: an openstacksdk connection.
        driver: the campaign's driver, which says what to create.
        mark: metadata that distinguishes the campaign's servers from all others, the same in every run.
    """

    def __init__(self, connection: Any, driver: Driver, mark: str) -> None:
        self._connection = connection
        self._driver = driver
        self._mark = mark
        self._made: dict[str, Any] = {}
        self._key = ""

    def make(self, public_key: str) -> dict[str, Any]:
        """Delete the servers that a killed run left, create new servers and wait until all are active.

        Args:
            public_key: public key of the user who logs in, in OpenSSH's format.

        Returns:
            name to server, as the SDK describes it.

        Raises:
            GavotteError: when the cloud refuses, or takes longer than `driver.wait_s`.
        """
        self.delete()
        with api_errors("make the servers"):
            compute = self._connection.compute
            image = self._found(self._connection.image.find_image(self._driver.image), "image", self._driver.image)
            network = self._found(
                self._connection.network.find_network(self._driver.network), "network", self._driver.network
            )
            self._key = compute.create_keypair(name=self._mark, public_key=public_key).name
            end = time.monotonic() + self._driver.wait_s
            for server in in_order(self._driver.server):
                flavor = self._found(compute.find_flavor(server.flavor), "flavor", server.flavor)
                asked: dict[str, Any] = {
                    "name": f"{self._mark}-{server.name}",
                    "image_id": image.id,
                    "flavor_id": flavor.id,
                    "networks": [{"uuid": network.id}],
                    "key_name": self._key,
                    "metadata": {MARK: self._mark, "endpoint": server.name},
                }
                if server.zone is not None:
                    asked["availability_zone"] = server.zone
                hints = {}
                if server.same_host_as is not None:
                    hints["same_host"] = [self._made[server.same_host_as].id]
                if server.other_host_than is not None:
                    hints["different_host"] = [self._made[server.other_host_than].id]
                if hints:
                    asked["scheduler_hints"] = hints
                made = compute.create_server(**asked)
                self._made[server.name] = made
                # A hint names a server that the scheduler has placed.
                left_s = max(1.0, end - time.monotonic())
                self._made[server.name] = compute.wait_for_server(made, failures=["ERROR"], interval=1, wait=left_s)
                logger.info("server %s is active", server.name)
        self._check_places()
        return dict(self._made)

    def _check_places(self) -> None:
        """Check that the servers are where their hints ask: a cloud without these filters ignores hints silently.

        Raises:
            GavotteError: when a server is elsewhere.
        """
        for server in self._driver.server:
            for other, together in ((server.same_host_as, True), (server.other_host_than, False)):
                if other is None:
                    continue
                one, two = (self.machine(self._made[name]) for name in (server.name, other))
                if one and two and (one == two) is not together:
                    where = "one machine" if one == two else "two machines"
                    raise GavotteError(
                        f"the cloud put `{server.name}` and `{other}` on {where}",
                        hint="its scheduler lacks SameHostFilter or DifferentHostFilter; name hosts by `zone`",
                    )

    def machine(self, server: Any) -> str:
        """Return an identifier of a server's machine; empty if the cloud does not show it to its users."""
        return str(server.hypervisor_hostname or server.host_id or "")

    def delete(self) -> None:
        """Delete the key and every server of the campaign, and wait until the servers are gone."""
        with api_errors("delete the servers"):
            compute = self._connection.compute
            mine = [each for each in compute.servers() if (each.metadata or {}).get(MARK) == self._mark]
            for server in mine:
                compute.delete_server(server, ignore_missing=True)
            for server in mine:
                compute.wait_for_delete(server, interval=1, wait=GONE_LIMIT_S)
            compute.delete_keypair(self._mark, ignore_missing=True)
            if mine:
                logger.info("%d servers deleted", len(mine))
        self._made.clear()

    def _found(self, thing: Any, kind: str, name: str | None) -> Any:
        if thing is None:
            raise GavotteError(f"the cloud has no {kind} `{name}`", hint=f"`openstack {kind} list` tells which it has")
        return thing


@contextmanager
def api_errors(what: str) -> Iterator[None]:
    """Replace errors of the SDK within a `with` block by a `GavotteError` of one line."""
    import openstack
    from keystoneauth1 import exceptions as key_errors

    try:
        yield
    except (openstack.exceptions.SDKException, key_errors.ClientException) as error:
        text = " ".join(str(error).split())[:300] or type(error).__name__
        raise GavotteError(f"OpenStack did not {what}: {text}", hint="see the cloud's own log, or try again") from None


def in_order(servers: list[Server]) -> list[Server]:
    """Sort servers so that each comes after the servers that its scheduler hints name.

    Raises:
        GavotteError: when a hint names no server of the campaign, or hints go round in a circle.
    """
    names = {server.name for server in servers}
    done: list[Server] = []
    waiting = list(servers)
    while waiting:
        placed = {server.name for server in done}
        ready = [each for each in waiting if {each.same_host_as, each.other_host_than} - {None} <= placed]
        if not ready:
            each = waiting[0]
            hint = next(name for name in (each.same_host_as, each.other_host_than) if name not in (None, *placed))
            why = "a circle" if hint in names else "no server of the campaign"
            raise GavotteError(
                f"server `{each.name}` is to be placed by `{hint}`, which is {why}", hint="change the hint"
            )
        done += ready
        waiting = [each for each in waiting if each not in ready]
    return done


def inventory_of(servers: Mapping[str, Any], machine: Mapping[str, str], driver: Driver, ssh_config: str) -> Inventory:
    """Return an inventory of servers with their fixed addresses; SSH uses floating addresses where they exist."""
    hosts = []
    for name, server in servers.items():
        ports = [port for ports in (server.addresses or {}).values() for port in ports]
        fixed = [port["addr"] for port in ports if port.get("OS-EXT-IPS:type", "fixed") == "fixed"]
        floating = [port["addr"] for port in ports if port.get("OS-EXT-IPS:type") == "floating"]
        if not fixed:
            raise GavotteError(f"server {name} has no address on `{driver.network}`", hint="give the network a subnet")
        door = (floating or fixed)[0]
        labels = {"machine": machine[name]} if machine[name] else {}
        if driver.tenant(name):
            labels[TENANT] = driver.tenant(name)
        place = f"[{door}]" if ":" in door else door
        hosts.append({"name": name, "address": fixed[0], "agent": f"ssh://{driver.user}@{place}", "labels": labels})
    return Inventory.model_validate({"format": FORMAT, "ssh_config": ssh_config, "host": hosts})


@contextmanager
def in_openstack(campaign: Campaign) -> Iterator[HostEndpoints]:
    """Run servers with agents for the length of a `with` block, and delete them at its end, even after an error."""
    driver = campaign.driver
    connection = connected(driver.cloud)
    servers = Servers(connection, driver, mark_of(campaign))
    with tempfile.TemporaryDirectory(prefix="gavotte-key-") as folder:
        config, public = _login(Path(folder))
        try:
            made = servers.make(public)
            machine = {name: servers.machine(server) for name, server in made.items()}
            inventory = inventory_of(made, machine, driver, str(config))
            for name in campaign.endpoints:
                if name not in made:
                    raise GavotteError(f"`{name}` is not a server of the campaign", hint="add a [[driver.server]]")
            endpoints = _reached(inventory, driver.wait_s)
            try:
                yield endpoints
            finally:
                endpoints.close()
        finally:
            servers.delete()


def connected(cloud: str) -> Any:
    """Return an openstacksdk connection to a cloud.

    Raises:
        UnsupportedError: when openstacksdk is not installed.
        GavotteError: when the cloud is not known or refuses the login.
    """
    with needs("openstack"):
        import openstack
    with api_errors("let you in"):
        connection = openstack.connect(cloud=cloud or None)
        connection.authorize()
    return connection


def mark_of(campaign: Campaign) -> str:
    """Return the mark of a campaign's servers. Two users' campaigns of one name are in different projects."""
    return f"gavotte-{campaign.name}"[:60]


def _login(folder: Path) -> tuple[Path, str]:
    """Create a key pair for this run only; return an SSH configuration that uses it, and the public key."""
    # openstacksdk needs cryptography too, so it is installed.
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    private = Ed25519PrivateKey.generate()
    key = folder / "key"
    handle = os.open(key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(
            private.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
            )
        )
    public = private.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    config = folder / "config"
    config.write_text(
        f"Host *\n  IdentityFile {key}\n  IdentitiesOnly yes\n  UserKnownHostsFile {folder / 'known_hosts'}\n"
        # The servers are new, so no client can know their keys.
        "  StrictHostKeyChecking accept-new\n"
    )
    return config, public.decode()


def _reached(inventory: Inventory, wait_s: float) -> HostEndpoints:
    """Wait until all servers accept logins. They are active before they have booted."""
    end = time.monotonic() + wait_s
    while True:
        try:
            return HostEndpoints(inventory)
        except GavotteError as error:
            if time.monotonic() + RETRY_S > end:
                raise
            logger.info("waits for the servers to boot: %s", error)
        time.sleep(RETRY_S)
