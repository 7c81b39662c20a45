"""Make Inventories from an ssh configuration, a Slurm allocation, an MPI hostfile, a kubeconfig, or a list of names.

A source sends nothing to the hosts. They are later reached over SSH. All sources only read text, but for `kubeconfig`,
which asks the cluster's API server. `listings` reads what clouds, Kubernetes, Ansible and Terraform list.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gavotte.loading import load_on_first_use

if TYPE_CHECKING:
    from gavotte.agents.sources.kubeconfig import from_kubeconfig
    from gavotte.agents.sources.listed import from_list
    from gavotte.agents.sources.mpi import from_mpi
    from gavotte.agents.sources.slurm import from_slurm
    from gavotte.agents.sources.ssh_config import from_ssh_config

__all__ = ["from_kubeconfig", "from_list", "from_mpi", "from_slurm", "from_ssh_config"]

load_on_first_use(
    __name__,
    {
        "kubeconfig": ("from_kubeconfig",),
        "listed": ("from_list",),
        "mpi": ("from_mpi",),
        "slurm": ("from_slurm",),
        "ssh_config": ("from_ssh_config",),
    },
)
