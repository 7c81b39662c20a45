"""Reads the result files that OSMeF's authors published (github.com/bigfootproject/OSMEF, `output/`), one run each."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gavotte.campaign.engines import jain
from gavotte.campaign.running import METRIC
from gavotte.errors import FormatError
from gavotte.formats.names import label_of
from gavotte.formats.reading import parse_json, read_text
from gavotte.formats.record import Quantity, Sample

HINT = "name a result file of OSMeF, such as output/paper/localhost/1374576551_BTC.json"
LATEST_S = 2.5e11
DISTANCES = {"localhost": 0, "vm_to_vm_1": 0, "vm_to_vm_2": 2, "vm_to_vm_3": 4, "vm_to_vm_4": 4}
"""As the authors' own plot of Fig. 3 places them; the others' are not told."""


def read_osmef(paths: Sequence[str | Path], name: str = "osmef") -> list[Sample]:
    """Reads result files; the folder of each is its scenario.

    Args:
        paths: the files.
        name: of the campaign.

    Raises:
        FormatError: naming the file and what it lacks.
    """
    taken: dict[tuple[str, int], int] = defaultdict(int)
    samples = []
    told = sorted(((_read(Path(path)), Path(path)) for path in paths), key=lambda each: (each[0]["time"], str(each[1])))
    for content, path in told:
        scenario = label_of(path.absolute().parent.name)
        connections = len(content["btc"])
        repetition = taken[scenario, connections]
        taken[scenario, connections] += 1
        samples.append(_sample(content, path, name, scenario, repetition))
    return samples


def _read(path: Path) -> dict[str, Any]:
    content = parse_json(read_text(path), str(path))
    if not isinstance(content, dict):
        raise FormatError(str(path), "", "is not a result of OSMeF", HINT)
    if not isinstance(content.get("btc"), dict) or not content["btc"]:
        raise FormatError(str(path), "btc", "has no connections", HINT)
    time_s = content.get("time")
    if not isinstance(time_s, int | float) or isinstance(time_s, bool) or not 0 <= time_s < LATEST_S:
        raise FormatError(str(path), "time", "is not a Unix time", HINT)
    for key, connection in content["btc"].items():
        for side in ("rx", "tx"):
            if not isinstance(connection, dict) or not isinstance(connection.get(side), dict):
                raise FormatError(str(path), f"btc.{key}.{side}", "is missing", HINT)
    return content


def _sample(content: dict[str, Any], path: Path, name: str, scenario: str, repetition: int) -> Sample:
    connections = content["btc"]

    def column(side: str, key: str) -> list[float]:
        found = [_number(connection[side].get(key)) for connection in connections.values()]
        return [value for value in found if value is not None]

    rates_bps = [1e6 * rate for rate in column("rx", "rate_Mbps")]
    if len(rates_bps) < len(connections):
        raise FormatError(str(path), "btc", "a connection has no rate_Mbps", HINT)
    times = column("tx", "real_seconds")
    retransmits, rtts = column("tx", "retrans"), column("tx", "rtt_ms")
    metrics = {
        "jain": Quantity(value=jain(rates_bps)),
        "connection_bps": Quantity(value=sum(rates_bps) / len(rates_bps), unit="bit/s"),
        "distance": Quantity(value=DISTANCES.get(scenario), unit="edges"),
        "retransmits": Quantity(value=sum(retransmits) if retransmits else None, unit="segments"),
        "rtt_idle_s": Quantity(value=sum(rtts) / len(rtts) / 1e3 if rtts else None, unit="s"),
        "sender_cpu": Quantity(value=sum(column("tx", "cpu")) / 100, unit="cores"),
        "receiver_cpu": Quantity(value=sum(column("rx", "cpu")) / 100, unit="cores"),
    }
    source, target = (re.sub(r"^.*@", "", str(content.get(key, "not told"))) for key in ("senders", "receiver"))
    states = {host: content.get(key) for host, key in ((source, "state_sender"), (target, "state_receiver"))}
    return Sample(
        campaign=name,
        scenario=scenario,
        repetition=repetition,
        sample=f"{scenario}/{path.stem}",
        metric=METRIC,
        value=sum(rates_bps),
        unit="bit/s",
        time_s=float(content["time"]),
        source=source,
        target=target,
        connections=len(connections),
        engine="nuttcp",
        seconds=max(times, default=0.0),
        connection_bps=rates_bps,
        metrics=metrics,
        metadata={
            "driver": "osmef",
            "before": {host: _state(state) for host, state in states.items() if isinstance(state, dict)},
            "osmef": {"name": content.get("name"), "type": content.get("type")},
        },
    )


def _state(state: dict[str, Any]) -> dict[str, Any]:
    """Its own words, and those that ours share with it."""
    found: dict[str, Any] = {"osmef": json.loads(json.dumps(state))}
    if isinstance(kernel := state.get("kernel_version"), str):
        found["kernel"] = kernel
    if (load := _number(state.get("load_1"))) is not None:
        found["load_1min"] = load
    return found


def _number(text: object) -> float | None:
    match = re.fullmatch(r"(\d{1,18}(?:\.\d{1,9})?)%?", str(text))
    return float(match[1]) if match else None
