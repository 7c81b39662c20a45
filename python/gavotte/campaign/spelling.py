"""Give each host of a campaign one spelling, since the campaign's file may write its name in another case."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from gavotte.formats.campaign import Campaign, Driver, Scenario
from gavotte.formats.parts.names import known_as
from gavotte.formats.topology import Topology


def spelled(campaign: Campaign) -> Campaign:
    """Return the campaign with one spelling for each host: that of its server or node, else the first mention."""
    driver = campaign.driver
    known: dict[str, None] = {}
    for name in _named(driver, campaign.endpoints):
        if known_as(name, known) not in known:
            known[name] = None
    own = {name: known_as(name, known) for name in _named(driver, campaign.endpoints)}
    if all(name == spelling for name, spelling in own.items()):
        return campaign
    scenarios = [_scenario(each, own) for each in campaign.scenario]
    return campaign.model_copy(update={"driver": _driver(driver, own), "scenario": scenarios})


def spelled_topology(topology: Topology, endpoints: Collection[str]) -> Topology:
    """Return a Topology whose hosts and machines are spelled as the campaign's endpoints are."""
    hosts = [
        host.model_copy(
            update={
                "name": known_as(host.name, endpoints),
                "machine": None if host.machine is None else known_as(host.machine, endpoints),
            }
        )
        for host in topology.host
    ]
    machines = [each.model_copy(update={"name": known_as(each.name, endpoints)}) for each in topology.machine]
    return topology.model_copy(update={"host": hosts, "machine": machines})


def _named(driver: Driver, endpoints: Iterable[str]) -> list[str]:
    made = [server.name for server in driver.server] + [node.name for node in driver.node]
    placed = [other for each in driver.server for other in (each.same_host_as, each.other_host_than)]
    placed += [each.same_node_as for each in driver.node]
    tenants = [host for hosts in driver.tenants.values() for host in hosts]
    return [*made, *endpoints, *tenants, *filter(None, placed)]


def _scenario(scenario: Scenario, own: dict[str, str]) -> Scenario:
    background = [
        stream.model_copy(update={"source": own[stream.source], "target": own[stream.target]})
        for stream in scenario.background
    ]
    return scenario.model_copy(
        update={
            "source": [own[name] for name in scenario.source],
            "target": [own[name] for name in scenario.target],
            "background": background,
        }
    )


def _driver(driver: Driver, own: dict[str, str]) -> Driver:
    def placed(name: str | None) -> str | None:
        return None if name is None else own[name]

    servers = [
        each.model_copy(
            update={
                "name": own[each.name],
                "same_host_as": placed(each.same_host_as),
                "other_host_than": placed(each.other_host_than),
            }
        )
        for each in driver.server
    ]
    nodes = [
        each.model_copy(update={"name": own[each.name], "same_node_as": placed(each.same_node_as)})
        for each in driver.node
    ]
    tenants = {tenant: [own[host] for host in hosts] for tenant, hosts in driver.tenants.items()}
    return driver.model_copy(update={"server": servers, "node": nodes, "tenants": tenants})
