"""Drivers that provide a campaign's endpoints: a lab, existing hosts, OpenStack or Kubernetes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gavotte.loading import load_on_first_use

if TYPE_CHECKING:
    from gavotte.campaign.drivers.endpoints import Endpoints, Lab, MakesKeys, MakesLab, Tunnelled
    from gavotte.campaign.drivers.opening import opened

__all__ = ["Endpoints", "Lab", "MakesKeys", "MakesLab", "Tunnelled", "opened"]

load_on_first_use(
    __name__,
    {
        "endpoints": ("Endpoints", "Lab", "MakesKeys", "MakesLab", "Tunnelled"),
        "opening": ("opened",),
    },
)
