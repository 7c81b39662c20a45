"""Hands a Placement to launchers in the form that they take today."""

from gavotte.export.exporting import FORMATS, Format, export, only
from gavotte.export.mpi import crowded

__all__ = ["FORMATS", "Format", "crowded", "export", "only"]
