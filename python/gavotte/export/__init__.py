"""Write files that launchers and schedulers read: a Placement as MPI host files, a Network as Slurm's topology."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gavotte.loading import load_on_first_use

if TYPE_CHECKING:
    from gavotte.export.exporting import (
        ALL_FORMATS,
        FORMATS,
        TOPOLOGY_FORMATS,
        Format,
        TopologyFormat,
        check_format,
        doubts,
        export,
        export_network,
        only,
    )
    from gavotte.export.mpi import crowded

__all__ = [
    "ALL_FORMATS",
    "FORMATS",
    "TOPOLOGY_FORMATS",
    "Format",
    "TopologyFormat",
    "check_format",
    "crowded",
    "doubts",
    "export",
    "export_network",
    "only",
]

load_on_first_use(
    __name__,
    {
        "exporting": (
            "ALL_FORMATS",
            "FORMATS",
            "TOPOLOGY_FORMATS",
            "Format",
            "TopologyFormat",
            "check_format",
            "doubts",
            "export",
            "export_network",
            "only",
        ),
        "mpi": ("crowded",),
    },
)
