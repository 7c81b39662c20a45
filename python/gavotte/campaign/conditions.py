"""Find conditions during a campaign, such as a busy host, that make its samples doubtful."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from gavotte.campaign.states import accounts, used
from gavotte.formats.record import Sample

BUSY_LOAD = 0.5
"""Load average per core before a sample, above which other work counts as a disturbance."""
STEAL = 0.01
"""Share of processor time, 0 to 1, above which the time that the hypervisor gave to other machines is reported."""
CLOCK_S = 1e-4
"""Difference of two clocks, in seconds, that is tolerated in addition to the error of their comparison."""
SHOWN = 3
"""Most samples that a line names; of more, it gives the number."""
AVERAGE = "a credit ran out, so the capacity is the average of two rates; `sustained_bps` is the rate from then on"
CONSTANT = ("kernel", "congestion", "clock_source", "governor", "cpus")
"""Entries of an endpoint's state that must not change during a campaign."""


def unclean(samples: Sequence[Sample]) -> list[str]:
    """Return a line for each condition that makes samples doubtful; empty = the samples show none."""
    findings: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    seen: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for sample in samples:
        before, after = accounts(sample.metadata)
        beside = sample.metadata.get("beside")
        for other in beside if isinstance(beside, list) else ():
            findings[f"another run was active: {other}"][""].add(sample.sample)
        if "sustained_bps" in sample.metrics:
            findings[AVERAGE][sample.source].add(sample.sample)
        if clocks := _clocks(sample):
            findings[clocks][""].add(sample.sample)
        if not before:
            findings["the endpoints reported no state"][""].add(sample.sample)
        for host, state in before.items():
            if not state:
                findings["reported no state"][host].add(sample.sample)
                continue
            for what, value in _constant(state).items():
                seen[host, what].setdefault(str(value), sample.sample)
            for finding in _doubts(state, after.get(host, {})):
                findings[finding][host].add(sample.sample)
    lines = []
    for what, hosts in findings.items():
        where = [sample.sample for sample in samples if any(sample.sample in each for each in hosts.values())]
        named = ", ".join(filter(None, sorted(hosts)))
        lines.append(
            f"{named}: {what} ({_named(where, len(samples))})" if named else f"{what} ({_named(where, len(samples))})"
        )
    for (host, what), values in seen.items():
        if len(values) > 1:
            lines.append(f"{what} of {host} changed: {', '.join(sorted(values))}")
    return lines


def _clocks(sample: Sample) -> str:
    """Return why one-way delays of a sample are wrong; empty = its clocks agree as far as they could be compared."""
    ahead, error = (sample.metrics.get(name) for name in ("clock_ahead_s", "clock_error_s"))
    if ahead is None or error is None or ahead.value is None or error.value is None:
        return ""
    if abs(ahead.value) <= error.value + CLOCK_S:
        return ""
    return f"clocks of {sample.source} and {sample.target} differ, so one-way delays are wrong"


def _doubts(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    faults = []
    cpus = before.get("cpus") or 1
    if before.get("load_1min", 0.0) > BUSY_LOAD * cpus:
        faults.append(f"load before the sample above {BUSY_LOAD:g} for each core")
    if used(before, after).get("steal", 0.0) > STEAL:
        faults.append(f"more than {100 * STEAL:g} % of its time stolen by the hypervisor")
    clock = before.get("clock_source", "")
    if clock in ("acpi_pm", "jiffies", "hpet"):
        faults.append(f"slow clock source `{clock}`")
    for name, counters in before.get("interfaces", {}).items():
        later = after.get("interfaces", {}).get(name, {})
        grown = [key for key in ("rx_errors", "tx_errors") if later.get(key, 0) > counters.get(key, 0)]
        faults += [f"{key.replace('_', ' ')} on {name}" for key in grown]
    return faults


def _constant(state: dict[str, Any]) -> dict[str, Any]:
    constants = {key: state[key] for key in CONSTANT if key in state}
    constants |= {f"version of {package}": version for package, version in state.get("versions", {}).items()}
    for name, counters in state.get("interfaces", {}).items():
        for key in ("mtu", "offloads", "gso_max_bytes"):
            # A tunnel exists only during its own samples.
            if key in counters and not name.startswith("gvx"):
                constants[f"{key} of {name}"] = counters[key]
    return constants


def _named(samples: Sequence[str], of: int) -> str:
    if len(samples) > SHOWN:
        return f"{len(samples)} of {of} samples"
    return ", ".join(samples)
