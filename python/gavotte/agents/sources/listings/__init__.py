"""Hosts from the JSON listings of clouds, Kubernetes, Ansible and Terraform.

`from_listings` recognises each listing by its content. It reads text and contacts neither the cloud nor the hosts.
"""

from gavotte.agents.sources.listings.reading import Listing, from_listings

__all__ = ["Listing", "from_listings"]
