"""Inventories from what others have written: an ssh configuration, a Slurm allocation, an MPI hostfile.

Each reads text only; the hosts are then reached over SSH, and nothing is sent to them here.
"""

from gavotte.agents.sources.mpi import from_mpi
from gavotte.agents.sources.slurm import from_slurm
from gavotte.agents.sources.ssh_config import from_ssh_config

__all__ = ["from_mpi", "from_slurm", "from_ssh_config"]
