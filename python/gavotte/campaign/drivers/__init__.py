"""Drivers that provide a campaign's endpoints: a lab, existing hosts, OpenStack or Kubernetes."""

from gavotte.campaign.drivers.endpoints import Endpoints, Lab, MakesKeys, MakesLab, Tunnelled
from gavotte.campaign.drivers.opening import opened

__all__ = ["Endpoints", "Lab", "MakesKeys", "MakesLab", "Tunnelled", "opened"]
