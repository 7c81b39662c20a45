"""Make the JSON schemas of Gavotte's text files from the types that validate them."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from gavotte.formats.app import App
from gavotte.formats.campaign import Campaign
from gavotte.formats.collective import Collective
from gavotte.formats.guarantee import Guarantee
from gavotte.formats.inventory import Inventory
from gavotte.formats.network import Network
from gavotte.formats.placement import Placement
from gavotte.formats.record import Record, Sample
from gavotte.formats.topology import Topology

NOUNS: dict[str, type[BaseModel]] = {
    "hosts": Inventory,
    "topology": Topology,
    "network": Network,
    "app": App,
    "placement": Placement,
    "collective": Collective,
    "guarantee": Guarantee,
    "campaign": Campaign,
    "record": Record,
    "sample": Sample,
}
"""Every text noun by the word in its file name. A History is binary (`.npz`) and has no JSON schema."""


def schema(noun: str) -> dict[str, Any]:
    """Return the JSON schema (draft 2020-12) of one noun.

    Raises:
        KeyError: for a word not in `NOUNS`.
    """
    content = NOUNS[noun].model_json_schema(mode="validation")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:gavotte:{noun}:1",
        **content,
    }
