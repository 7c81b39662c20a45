"""Find the hosts that `--hosts` names."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from gavotte.agents.runtime import lab_hosts_file
from gavotte.agents.sources import from_kubeconfig, from_list, from_mpi, from_slurm, from_ssh_config
from gavotte.errors import GavotteError
from gavotte.formats.inventory import Inventory, read_inventory

logger = logging.getLogger(__name__)


def resolve_hosts(name: str) -> Inventory:
    """Read the inventory that a user named.

    Args:
        name: what to read. `lab` is the running lab, and `slurm` the current allocation. `ssh-config:GLOB` selects
            hosts of the ssh configuration. `mpi:FILE` selects the hosts of an MPI hostfile, and `listing:FILE` those
            of a cloud's, Ansible's, Terraform's or Kubernetes' JSON listing. `kubeconfig` and `kubeconfig:CONTEXT` are
            the nodes of the cluster that the kubeconfig names. Names or addresses with commas between
            them are reached over SSH. Any other name is the path of a `*.hosts.toml`.

    Raises:
        GavotteError: when no lab is up, there is no allocation, the file is bad, or a cluster does not answer.
    """
    if not name:
        raise GavotteError("no host is named", hint="give `lab`, a *.hosts.toml, or names: a,b,c")
    if name == "slurm":
        return from_slurm(os.environ)
    kind, mark, rest = name.partition(":")
    if mark and kind == "ssh-config":
        return from_ssh_config(rest)
    if mark and kind == "mpi":
        return from_mpi(rest)
    if kind == "kubeconfig" or (mark and kind == "listing"):
        # Its many types would delay the start of every verb.
        from gavotte.agents.sources.listings import from_listings

        listing = from_kubeconfig(rest) if kind == "kubeconfig" else from_listings([rest])
        for host, reason in listing.absent.items():
            logger.warning("%s: left out: %s", host, reason)
        return listing.inventory
    if "," in name and not Path(name).exists():
        return from_list(name)
    if name != "lab":
        return read_inventory(name)
    path = lab_hosts_file()
    if not path.exists():
        raise GavotteError("no lab is up", hint="start one with `gavotte lab up TOPOLOGY`, or name a hosts file")
    return read_inventory(path)
