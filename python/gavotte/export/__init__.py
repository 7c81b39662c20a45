"""Hands a Placement to launchers in the form that they take today."""

from gavotte.export.exporting import FORMATS, Format, export, only

__all__ = ["FORMATS", "Format", "export", "only"]
