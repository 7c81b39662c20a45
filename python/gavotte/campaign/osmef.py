"""Read the result files that OSMeF's authors published (github.com/bigfootproject/OSMEF) as Samples.

Each file holds one run, in one of two forms:

- The paper's files in `output/` hold nuttcp's report of each connection.
- The files of 2014, `experiments/*/*/summary.json`, hold the bytes and times of each thread of the authors' own senders
  and receivers, which are a shuffle's mappers and reducers.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gavotte.campaign.jobs import jain
from gavotte.campaign.running import METRIC
from gavotte.errors import FormatError
from gavotte.formats.files.reading import parse_json, read_text
from gavotte.formats.parts.names import label_of
from gavotte.formats.record import Quantity, Sample

HINT = "name a result file of OSMeF, such as output/paper/localhost/1374576551_BTC.json or a summary.json"
SUMMARY = "summary.json"
LATEST_S = 2.5e11
DISTANCES = {"localhost": 0, "vm_to_vm_1": 0, "vm_to_vm_2": 2, "vm_to_vm_3": 4, "vm_to_vm_4": 4}
"""Scenario to distance in edges, from the authors' own plot of Fig. 3. Distances of other scenarios are unknown."""


def read_osmef(paths: Sequence[str | Path], name: str = "osmef") -> list[Sample]:
    """Read result files of OSMeF and return one sample for each, in order of time.

    A file's folder gives the scenario. Runs of the same scenario and number of connections are repetitions.

    Args:
        paths: the result files.
        name: the campaign's name in the samples.

    Raises:
        FormatError: when a file is no result of OSMeF; names the file and the fault.
    """
    taken: dict[tuple[str, int], int] = defaultdict(int)
    samples = []
    runs = [_read(Path(path), name) for path in paths]
    for each in sorted(runs, key=lambda each: (each.time_s, each.sample)):
        repetition = taken[each.scenario, each.connections]
        taken[each.scenario, each.connections] += 1
        samples.append(each.model_copy(update={"repetition": repetition}))
    return samples


def _read(path: Path, name: str) -> Sample:
    content = parse_json(read_text(path), str(path))
    if not isinstance(content, dict):
        raise FormatError(str(path), "", "is not a result of OSMeF", HINT)
    return _shuffle(content, path, name) if path.name == SUMMARY else _sample(_sound(content, path), path, name)


def _sound(content: dict[str, Any], path: Path) -> dict[str, Any]:
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


def _sample(content: dict[str, Any], path: Path, name: str) -> Sample:
    scenario = label_of(path.absolute().parent.name)
    connections = content["btc"]

    def column(side: str, key: str) -> list[float]:
        numbers = [_number(connection[side].get(key)) for connection in connections.values()]
        return [value for value in numbers if value is not None]

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
        # One nuttcp ran for each connection.
        "sender_cpu_connection": Quantity(value=_mean(column("tx", "cpu"), 100), unit="cores"),
        "receiver_cpu_connection": Quantity(value=_mean(column("rx", "cpu"), 100), unit="cores"),
    }
    source, target = (re.sub(r"^.*@", "", str(content.get(key, "unknown"))) for key in ("senders", "receiver"))
    states = {host: content.get(key) for host, key in ((source, "state_sender"), (target, "state_receiver"))}
    return Sample(
        campaign=name,
        scenario=scenario,
        repetition=0,
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


def _shuffle(content: dict[str, Any], path: Path, name: str) -> Sample:
    """Return the sample in a `summary.json` of 2014.

    The file's folder is named after the experiment and the time; its name without the time is the scenario. The name
    of the folder above begins the sample's name. The capacity counts the receiving threads' bytes, from the first
    thread's start to the last thread's end. Senders' times do not count, since the senders' clocks differ.
    """
    threads: dict[str, list[dict[str, float]]] = {"m": [], "r": []}
    ends: dict[str, set[str]] = {"m": set(), "r": set()}
    for machine, workers in content.items():
        for worker, results in workers.items() if isinstance(workers, dict) else ():
            side = worker.rpartition(":")[2][:1]
            if side not in threads or not isinstance(results, list):
                raise FormatError(str(path), f"{machine}.{worker}", "is neither a mapper nor a reducer", HINT)
            for index, each in enumerate(results):
                thread = _thread(each)
                if thread is None:
                    lacks = "lacks one of bytes, time_elapsed, wall_time_start and cpu_time"
                    raise FormatError(str(path), f"{machine}.{worker}[{index}]", lacks, HINT)
                threads[side].append(thread)
                ends[side].add(machine)
    if not threads["m"] or not threads["r"]:
        raise FormatError(str(path), "", "has no mapper and reducer", HINT)
    came = threads["r"]
    begin_s = min(each["start_s"] for each in came)
    seconds = max(each["start_s"] + each["seconds"] for each in came) - begin_s
    rates_bps = [8 * each["bytes"] / each["seconds"] for each in came]
    busy = {side: sum(each["cpu_s"] for each in each_side) / seconds for side, each_side in threads.items()}
    metrics = {
        "jain": Quantity(value=jain(rates_bps)),
        "connection_bps": Quantity(value=sum(rates_bps) / len(rates_bps), unit="bit/s"),
        "distance": Quantity(value=0 if ends["m"] == ends["r"] and len(ends["m"]) == 1 else None, unit="edges"),
        "sender_cpu": Quantity(value=busy["m"], unit="cores"),
        "receiver_cpu": Quantity(value=busy["r"], unit="cores"),
    }
    folder = path.absolute().parent
    return Sample(
        campaign=name,
        scenario=label_of(re.sub(r"-\d+$", "", folder.name)),
        repetition=0,
        sample=f"{label_of(folder.parent.name)}/{label_of(folder.name)}",
        metric=METRIC,
        value=8 * sum(each["bytes"] for each in came) / seconds,
        unit="bit/s",
        time_s=begin_s,
        source=",".join(sorted(ends["m"])),
        target=",".join(sorted(ends["r"])),
        connections=len(came),
        engine="osmef",
        seconds=seconds,
        connection_bps=rates_bps,
        metrics=metrics,
        metadata={"driver": "osmef", "osmef": {"senders": len(threads["m"]), "receivers": len(came)}},
    )


def _thread(result: object) -> dict[str, float] | None:
    """Return one thread's bytes, and its duration, start and CPU time in seconds; None = a value is missing or invalid.

    OSMeF wrote numbers as text, and times in milliseconds.
    """
    if not isinstance(result, dict):
        return None
    numbers = [_number(result.get(key)) for key in ("bytes", "time_elapsed", "wall_time_start", "cpu_time")]
    size, elapsed_ms, start_ms, cpu_ms = numbers
    if size is None or not elapsed_ms or start_ms is None or cpu_ms is None or start_ms / 1e3 > LATEST_S:
        return None
    return {"bytes": size, "seconds": elapsed_ms / 1e3, "start_s": start_ms / 1e3, "cpu_s": cpu_ms / 1e3}


def _state(state: dict[str, Any]) -> dict[str, Any]:
    """Return a host's state as OSMeF reported it, plus the kernel and load under Gavotte's names."""
    labels: dict[str, Any] = {"osmef": json.loads(json.dumps(state))}
    if isinstance(kernel := state.get("kernel_version"), str):
        labels["kernel"] = kernel
    if (load := _number(state.get("load_1"))) is not None:
        labels["load_1min"] = load
    return labels


def _mean(values: Sequence[float], unit: float) -> float | None:
    return sum(values) / len(values) / unit if values else None


def _number(text: object) -> float | None:
    match = re.fullmatch(r"(\d{1,18}(?:\.\d{1,9})?)%?", str(text))
    return float(match[1]) if match else None
