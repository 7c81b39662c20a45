"""The nouns: everything that Gavotte keeps in files, each with a module and a type of its name."""

from __future__ import annotations

NOUNS = (
    "Inventory",
    "Topology",
    "History",
    "Network",
    "App",
    "Placement",
    "Collective",
    "Guarantee",
    "Campaign",
    "Record",
)
"""In the order in which an application meets them. This module imports nothing, since the package itself reads it."""
