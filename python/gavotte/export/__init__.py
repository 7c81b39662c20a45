"""Hands a Placement to launchers in the form that they take today."""

from gavotte.export.exporting import FORMATS, Format, export

__all__ = ["FORMATS", "Format", "export"]
