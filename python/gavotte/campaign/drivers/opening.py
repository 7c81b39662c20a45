"""Makes the endpoints that a campaign's file asks for."""

from __future__ import annotations

from contextlib import AbstractContextManager

from gavotte.campaign.drivers.endpoints import Endpoints, MakesLab
from gavotte.errors import UnsupportedError
from gavotte.formats.campaign import Campaign


def opened(campaign: Campaign, make_lab: MakesLab) -> AbstractContextManager[Endpoints]:
    """The endpoints of a campaign, for the length of a `with` block; what was made for it ends with that.

    Args:
        campaign: whose.
        make_lab: makes a lab of a topology.
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
    raise UnsupportedError(f"no `{campaign.driver.kind}` driver yet", hint="make the hosts, and use driver kind `ssh`")
