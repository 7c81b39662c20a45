"""Write a Placement in the file formats that launchers read, such as MPI host files, JSON and CSV."""

from gavotte.export.exporting import FORMATS, Format, export, only
from gavotte.export.mpi import crowded

__all__ = ["FORMATS", "Format", "crowded", "export", "only"]
