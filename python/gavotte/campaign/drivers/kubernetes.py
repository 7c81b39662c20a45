"""Endpoints in Kubernetes: pods with agents on the nodes that the campaign names, always deleted at the end."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from gavotte.agents.reach.keys import AUTHORITY
from gavotte.campaign.drivers.cluster import Cluster, Place, Pod, Report, connected, mark_of
from gavotte.campaign.drivers.endpoints import ASK_LIMIT_S, MakesKeys
from gavotte.campaign.drivers.forwarding import Forward
from gavotte.campaign.drivers.pod_shell import executed
from gavotte.campaign.drivers.ssh import HostEndpoints
from gavotte.errors import GavotteError
from gavotte.formats.campaign import Campaign, Driver
from gavotte.formats.inventory import FORMAT, Inventory
from gavotte.formats.parts.routes import CONTROL_PORT, TlsRoute

LOCAL = "127.0.0.1"
"""Address of the local ports that lead to agents. The agents' certificate is for this address."""
BEARER = "agent"


class PodEndpoints(HostEndpoints):
    """Pods with agents, reached through the API server, so that only pods need a route to pods."""

    kind = "kubernetes"

    def __init__(self, cluster: Cluster, driver: Driver, places: Mapping[str, Place], keys: Path) -> None:
        self._cluster = cluster
        self._driver = driver
        self._places = places
        self._keys = keys
        self._pods: dict[str, Pod] = {}
        self._forwards: list[Forward] = []
        super().__init__(self._present())

    def close(self) -> None:
        """Close the connections to the agents and the local ports."""
        super().close()
        for forward in self._forwards:
            forward.close()
        self._forwards.clear()

    def command(self, host: str, argv: Sequence[str]) -> list[str]:
        """Return the command line that runs a program in a pod."""
        place = [self._driver.context, self._driver.namespace, self._pods[host].name]
        return [sys.executable, "-m", "gavotte.campaign.drivers.pod_shell", *place, *argv]

    def ask(self, host: str, script: str) -> str:
        """Return the output of a shell script in a pod; empty if it has no shell or does not answer in time."""
        try:
            running = executed(
                self._cluster.api.configuration, self._driver.namespace, self._pods[host].name, ["sh", "-c", script]
            )
            running.run_forever(timeout=ASK_LIMIT_S)
            text = running.read_stdout(timeout=0) or ""
            running.close()
        except Exception:  # a WebSocket can raise errors of many types
            return ""
        return str(text)

    def mend(self) -> None:
        """Wait until all pods are ready again, including replacements, and reopen the port forwards."""
        self.close()
        self.inventory = self._present()
        super().mend()

    def _present(self) -> Inventory:
        self._pods = self._cluster.ready(self._places)
        ports = {}
        for name, pod in self._pods.items():
            forward = Forward(
                self._cluster.api.configuration, self._driver.namespace, pod.name, CONTROL_PORT, self._cluster.report
            )
            self._forwards.append(forward)
            ports[name] = forward.port
        return inventory_of(self._pods, ports, self._driver, self._keys)


def inventory_of(pods: Mapping[str, Pod], ports: Mapping[str, int], driver: Driver, keys: Path) -> Inventory:
    """Return an inventory of pods: other pods reach them at their own addresses, this process at local ports."""
    hosts = []
    for name, pod in pods.items():
        labels = {"machine": pod.node}
        if driver.tenant(name):
            labels["tenant"] = driver.tenant(name)
        agent = str(TlsRoute(LOCAL, ports[name]))
        hosts.append({"name": name, "address": pod.address, "agent": agent, "labels": labels})
    return Inventory.model_validate({"format": FORMAT, "keys": str(keys), "host": hosts})


@contextmanager
def in_kubernetes(campaign: Campaign, make_keys: MakesKeys | None, report: Report) -> Iterator[PodEndpoints]:
    """Run pods with agents for the length of a `with` block, and delete them at its end, even after an error."""
    driver = campaign.driver
    if make_keys is None:
        raise GavotteError("nothing makes the keys of the agents' pods", hint="use `gavotte campaign run`")
    cluster = Cluster(connected(driver.context), driver, mark_of(campaign), report)
    places = cluster.places(campaign.endpoints)
    with tempfile.TemporaryDirectory(prefix="gavotte-keys-") as folder:
        keys = Path(folder)
        make_keys(keys, BEARER, LOCAL)
        theirs = {file.name: file.read_bytes() for file in sorted((keys / "hosts" / BEARER).iterdir())}
        assert AUTHORITY in theirs
        try:
            cluster.make(places, theirs)
            endpoints = PodEndpoints(cluster, driver, places, keys)
            try:
                yield endpoints
            finally:
                endpoints.close()
        finally:
            cluster.delete()
