"""Open the endpoints that a campaign's file asks for."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from gavotte.campaign.drivers.endpoints import Endpoints, MakesKeys, MakesLab
from gavotte.formats.campaign import Campaign


def opened(
    campaign: Campaign, make_lab: MakesLab, make_keys: MakesKeys | None, report: Callable[[str], None]
) -> AbstractContextManager[Endpoints]:
    """Open the endpoints of a campaign for the length of a `with` block, and remove at its end what was made for them.

    Args:
        campaign: the campaign, whose driver says which endpoints.
        make_lab: makes a lab of a topology.
        make_keys: makes keys for agents behind TLS.
        report: is called with each line of progress.
    """
    if campaign.driver.kind == "lab":
        from gavotte.campaign.drivers.lab import in_lab

        return in_lab(campaign, make_lab)
    if campaign.driver.kind == "ssh":
        from gavotte.campaign.drivers.ssh import over_ssh

        return over_ssh(campaign)
    if campaign.driver.kind == "openstack":
        from gavotte.campaign.drivers.openstack import in_openstack

        return in_openstack(campaign)
    from gavotte.campaign.drivers.kubernetes import in_kubernetes

    return in_kubernetes(campaign, make_keys, report)
