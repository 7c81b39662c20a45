"""Short ways to make campaigns, and samples as if they had been measured."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from gavotte.formats.campaign import FORMAT, Campaign
from gavotte.formats.record import Quantity, Sample


def campaign(*scenarios: Mapping[str, Any], driver: Mapping[str, Any] | None = None, **fields: Any) -> Campaign:
    """Return a campaign of scenarios from a to b by default, in a lab."""
    listed = [
        {"name": f"s{number}", "kind": "pair", "source": ["a"]}
        | ({} if each.get("kind") in ("loopback", "all-to-all") else {"target": ["b"]})
        | dict(each)
        for number, each in enumerate(scenarios or [{}])
    ]
    made_by = driver or {"kind": "lab", "topology": "t.topology.toml"}
    return Campaign.model_validate({"format": FORMAT, "name": "study", "driver": made_by, "scenario": listed, **fields})


def sample(scenario: str, repetition: int, value: float, *, connections: int = 1, **fields: Any) -> Sample:
    """Return one sample from a to b."""
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
    """Return one sample for each value."""
    return [sample(scenario, number, value, **fields) for number, value in enumerate(values)]


def machines_of(hosts: Mapping[str, str], *, rate: str, machine_rate: str = "") -> str:
    """Return a Topology's text: machines under one switch below the core, and host to machine."""
    lines = [
        'format = "gavotte/topology/1"',
        "[[switch]]",
        'name = "core"',
        "[[switch]]",
        'name = "tor"',
        'parent = "core"',
    ]
    for machine in sorted(set(hosts.values())):
        lines += ["[[machine]]", f'name = "{machine}"', 'switch = "tor"', f'rate = "{rate}"']
        lines += [f'machine_rate = "{machine_rate}"'] if machine_rate else []
    for host, machine in hosts.items():
        lines += ["[[host]]", f'name = "{host}"', f'machine = "{machine}"']
    return "\n".join(lines) + "\n"


def scenario_text(name: str, kind: str, source: str, target: str = "", **more: Any) -> str:
    """Return a scenario as a file has it; spaces separate several hosts."""
    lines = ["[[scenario]]", f'name = "{name}"', f'kind = "{kind}"', f"source = {json.dumps(source.split())}"]
    if target:
        lines.append(f"target = {json.dumps(target.split())}")
    return "\n".join([*lines, *(f"{key} = {json.dumps(value)}" for key, value in more.items())]) + "\n"
