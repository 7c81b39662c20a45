"""Make the JSON schemas of Gavotte's text files from the types that validate them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import BaseModel

NOUNS: dict[str, str] = {
    "hosts": "inventory.Inventory",
    "topology": "topology.Topology",
    "network": "network.Network",
    "app": "app.App",
    "placement": "placement.Placement",
    "collective": "collective.Collective",
    "guarantee": "guarantee.Guarantee",
    "campaign": "campaign.Campaign",
    "record": "record.Record",
    "sample": "record.Sample",
}
"""Every text noun by the word in its file name: its module and type. A History is binary and has no JSON schema."""


def type_of(noun: str) -> type[BaseModel]:
    """Load the type of one noun, and none of the others.

    Raises:
        KeyError: for a word not in `NOUNS`.
    """
    module, name = NOUNS[noun].split(".")
    loaded: type[BaseModel] = getattr(import_module(f"gavotte.formats.{module}"), name)
    return loaded


def schema(noun: str) -> dict[str, Any]:
    """Return the JSON schema (draft 2020-12) of one noun.

    Raises:
        KeyError: for a word not in `NOUNS`.
    """
    content = type_of(noun).model_json_schema(mode="validation")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:gavotte:{noun}:1",
        **content,
    }
