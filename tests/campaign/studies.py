"""Campaigns in few words, and samples as if they had been measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gavotte.formats.campaign import FORMAT, Campaign
from gavotte.formats.record import Quantity, Sample


def campaign(*scenarios: Mapping[str, Any], driver: Mapping[str, Any] | None = None, **fields: Any) -> Campaign:
    """Scenarios from a to b unless they say otherwise, in a lab."""
    listed = [
        {"name": f"s{number}", "kind": "pair", "source": ["a"]}
        | ({} if each.get("kind") in ("loopback", "all-to-all") else {"target": ["b"]})
        | dict(each)
        for number, each in enumerate(scenarios or [{}])
    ]
    made_by = driver or {"kind": "lab", "topology": "t.topology.toml"}
    return Campaign.model_validate({"format": FORMAT, "name": "study", "driver": made_by, "scenario": listed, **fields})


def sample(scenario: str, repetition: int, value: float, *, connections: int = 1, **fields: Any) -> Sample:
    """One sample from a to b."""
    plain: dict[str, Any] = {
        "campaign": "study",
        "scenario": scenario,
        "repetition": repetition,
        "sample": f"{scenario}/p{connections}/r{repetition}",
        "metric": "capacity_bps",
        "value": value,
        "unit": "bit/s",
        "time_s": 1_700_000_000.0 + repetition,
        "source": "a",
        "target": "b",
        "connections": connections,
        "engine": "own",
        "metrics": {"connection_bps": Quantity(value=value / connections, unit="bit/s")},
    }
    return Sample.model_validate({**plain, **fields})


def repeated(scenario: str, values: Sequence[float], **fields: Any) -> list[Sample]:
    """One sample a value."""
    return [sample(scenario, number, value, **fields) for number, value in enumerate(values)]
