"""Write files that launchers and schedulers read: a Placement as MPI host files, a Network as Slurm's topology."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gavotte.loading import load_on_first_use

if TYPE_CHECKING:
    from gavotte.export.exporting import (
        ALL_FORMATS,
        FORMATS,
        JOB_FORMATS,
        TOPOLOGY_FORMATS,
        Format,
        JobFormat,
        JobQuestion,
        TopologyFormat,
        check_format,
        current_name,
        doubts,
        export,
        export_job,
        export_network,
        job_doubts,
        job_name,
        only,
    )
    from gavotte.export.jobs import Together
    from gavotte.export.mpi import crowded

__all__ = [
    "ALL_FORMATS",
    "FORMATS",
    "JOB_FORMATS",
    "TOPOLOGY_FORMATS",
    "Format",
    "JobFormat",
    "JobQuestion",
    "Together",
    "TopologyFormat",
    "check_format",
    "crowded",
    "current_name",
    "doubts",
    "export",
    "export_job",
    "export_network",
    "job_doubts",
    "job_name",
    "only",
]

load_on_first_use(
    __name__,
    {
        "exporting": (
            "ALL_FORMATS",
            "FORMATS",
            "JOB_FORMATS",
            "TOPOLOGY_FORMATS",
            "Format",
            "JobFormat",
            "JobQuestion",
            "TopologyFormat",
            "check_format",
            "current_name",
            "doubts",
            "export",
            "export_job",
            "export_network",
            "job_doubts",
            "job_name",
            "only",
        ),
        "jobs": ("Together",),
        "mpi": ("crowded",),
    },
)
