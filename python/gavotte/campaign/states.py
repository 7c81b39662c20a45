"""Read the state of an endpoint before and after a sample: load, processors, interfaces, kernel and versions.

One short script of POSIX shell runs on every kind of endpoint. Values that a host does not have are missing in its
output.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

SCRIPT = r"""
s() { echo "@$1"; }
s kernel; uname -srm
s time_s; date +%s.%N
s load; cat /proc/loadavg
s stat; head -n 1 /proc/stat
s cpus; grep -c ^processor /proc/cpuinfo
s memory; head -n 3 /proc/meminfo
s clock_source; cat /sys/devices/system/clocksource/clocksource0/current_clocksource
s governor; cat /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor
s congestion; cat /proc/sys/net/ipv4/tcp_congestion_control
s tcp_rmem; cat /proc/sys/net/ipv4/tcp_rmem
s tcp_wmem; cat /proc/sys/net/ipv4/tcp_wmem
s netdev; cat /proc/net/dev
s snmp; grep ^Tcp: /proc/net/snmp
s link; command -v ip >/dev/null && ip -d -o link show
command -v ethtool >/dev/null && for i in $(tail -n +3 /proc/net/dev | cut -d: -f1); do
  [ "$i" = lo ] || { s "offloads $i"; ethtool -k "$i" | grep ': on'; }
done
s versions
echo "system=$(sed -n 's/^PRETTY_NAME=//p' /etc/os-release)"
echo "iproute2=$(ip -V)"
echo "iperf3=$(iperf3 --version | head -n 1)"
echo "nuttcp=$(nuttcp -V)"
here=$(readlink /proc/self/ns/net)
for p in /proc/[0-9]*; do
  read -r c < "$p/comm" || continue
  case $c in gavotte-agent*) ;; *) continue ;; esac
  [ "$(readlink "$p/ns/net")" = "$here" ] || continue
  s agent; cat "$p/stat"
  s versions; echo "agent=$("$p/exe" --version)"
  s cgroup; cat "$p/cgroup"
  while IFS=: read -r _ kinds path; do
    for f in "/sys/fs/cgroup$path" "/sys/fs/cgroup/${kinds%%,*}$path"; do
      for k in cpu.max cpu.cfs_quota_us cpu.cfs_period_us cpuset.cpus; do
        [ "$path" != / ] && [ -r "$f/$k" ] && echo "=$k $(cat "$f/$k")"
      done
    done
  done < "$p/cgroup"
done
""".strip()
"""Shell script that prints an endpoint's state in sections, each under a line `@name`; failed commands are ignored."""

TICKS_PER_S = 100.0
"""The kernel's ticks of processor time in a second, as `/proc` reports them on every machine (USER_HZ)."""

_CPU_FIELDS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
_NETDEV = ("rx_bytes", "rx_packets", "rx_errors", "rx_dropped", "tx_bytes", "tx_packets", "tx_errors", "tx_dropped")
_NETDEV_AT = (0, 1, 2, 3, 8, 9, 10, 11)

_TEXTS = ("kernel", "clock_source", "governor", "congestion")
_NUMBERS = ("time_s", "load_1min", "cpus", "agent_ticks", "retransmitted_segments")

_COUNT = re.compile(r"[0-9]{1,20}")
"""Pattern of a kernel counter; a longer number is not taken as one."""

State = dict[str, Any]
"""State of one endpoint at one moment, ready for JSON."""


def read_state(text: str) -> State:
    """Return the endpoint's state in the output of SCRIPT; parts that cannot be read are left out.

    Returns:
        `kernel`, `time_s`, `load_1min`, `cpus`, `memory_bytes`, `clock_source`, `governor`, `congestion`, `cpu_ticks`
        (by kind), `interfaces` (by name: counters, `mtu`, `gso_max_bytes`, `offloads`), `retransmitted_segments`,
        `agent_ticks`, `cgroup`, `versions` (by package).
    """
    sections = _sections(text)
    state: State = {}
    for name in ("kernel", "clock_source", "governor", "congestion", "tcp_rmem", "tcp_wmem"):
        if line := " ".join(sections.get(name, "").split()):
            state[name] = line
    for name, key, kind in (("time_s", "time_s", float), ("load", "load_1min", float), ("cpus", "cpus", int)):
        if (number := _number(sections.get(name, ""))) is not None:
            state[key] = kind(number)
    if memory := dict(re.findall(r"(\w+): +(\d{1,15}) kB", sections.get("memory", ""))):
        state["memory_bytes"] = {name.lower(): 1024 * int(size) for name, size in memory.items()}
    words = sections.get("stat", "").split()
    if words[:1] == ["cpu"]:
        ticks = [int(word) for word in words[1:] if _COUNT.fullmatch(word)]
        state["cpu_ticks"] = dict(zip(_CPU_FIELDS, ticks, strict=False))
    if interfaces := _interfaces(sections):
        state["interfaces"] = interfaces
    if (segments := _retransmitted(sections.get("snmp", ""))) is not None:
        state["retransmitted_segments"] = segments
    agent = sections.get("agent", "").rpartition(")")[2].split()
    if len(agent) > 12 and _COUNT.fullmatch(agent[11]) and _COUNT.fullmatch(agent[12]):
        state["agent_ticks"] = int(agent[11]) + int(agent[12])
    if cgroup := re.findall(r"^=(\S+) (.+)$", sections.get("cgroup", ""), re.MULTILINE):
        state["cgroup"] = {key: value.strip() for key, value in cgroup}
    if versions := re.findall(r"^(\w+)=(.*\S)", sections.get("versions", ""), re.MULTILINE):
        state["versions"] = {name: version.strip('"') for name, version in versions}
    return state


def accounts(metadata: Mapping[str, Any]) -> tuple[dict[str, State], dict[str, State]]:
    """Return the endpoints' states before and after a sample, by host.

    Files may come from any source, so values of the wrong kind are left out, like missing ones.
    """
    sides = []
    for side in ("before", "after"):
        value = metadata.get(side)
        hosts = value.items() if isinstance(value, dict) else ()
        sides.append({host: _sound(state) for host, state in hosts})
    return sides[0], sides[1]


def _sound(state: object) -> State:
    if not isinstance(state, dict):
        return {}
    checked: State = {key: value for key, value in state.items() if key in _TEXTS and isinstance(value, str)}
    checked |= {key: value for key, value in state.items() if key in _NUMBERS and _is_number(value)}
    if not 0 < checked.get("cpus", 1) < 1e6:
        del checked["cpus"]
    if isinstance(ticks := state.get("cpu_ticks"), dict):
        checked["cpu_ticks"] = {kind: value for kind, value in ticks.items() if _is_number(value)}
    if isinstance(versions := state.get("versions"), dict):
        checked["versions"] = {name: text for name, text in versions.items() if isinstance(text, str)}
    if isinstance(interfaces := state.get("interfaces"), dict):
        checked["interfaces"] = {
            name: {key: value for key, value in counters.items() if _is_number(value) or isinstance(value, list)}
            for name, counters in interfaces.items()
            if isinstance(counters, dict)
        }
    return checked


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e30


def used(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, float]:
    """Return the processor time that an endpoint used between two states, as shares.

    Returns:
        `cpu` (busy), `softirq` and `steal`, each 0 to 1 of all cores; `process`, the agent's use, in cores. Unknown
        values are left out.
    """
    shares: dict[str, float] = {}
    first, last = before.get("cpu_ticks", {}), after.get("cpu_ticks", {})
    spent = {kind: max(0, last[kind] - first[kind]) for kind in first.keys() & last.keys()}
    total = sum(spent.values())
    if total:
        shares["cpu"] = 1 - (spent.get("idle", 0) + spent.get("iowait", 0)) / total
        shares["softirq"] = spent.get("softirq", 0) / total
        shares["steal"] = spent.get("steal", 0) / total
        if "agent_ticks" in before and "agent_ticks" in after and after.get("cpus"):
            ticks = after["agent_ticks"] - before["agent_ticks"]
            shares["process"] = max(0.0, ticks * after["cpus"] / total)
    return shares


def agent_seconds(before: Mapping[str, Any], after: Mapping[str, Any]) -> float | None:
    """Return the processor time in seconds that an endpoint's agent used between two states; None = unknown."""
    if "agent_ticks" not in before or "agent_ticks" not in after:
        return None
    return max(0.0, float(after["agent_ticks"] - before["agent_ticks"])) / TICKS_PER_S


def _sections(text: str) -> dict[str, str]:
    sections: dict[str, str] = {}
    name = ""
    for line in text.splitlines():
        if line.startswith("@"):
            name = line[1:].strip()
            sections.setdefault(name, "")
        elif name:
            sections[name] += line + "\n"
    return sections


def _number(text: str) -> float | None:
    match = re.match(r"\s*(\d{1,15}(?:\.\d{1,9})?)", text)
    return float(match[1]) if match else None


def _interfaces(sections: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    interfaces: dict[str, dict[str, Any]] = {}
    for line in sections.get("netdev", "").splitlines():
        name, mark, rest = line.partition(":")
        numbers = rest.split()
        if mark and len(numbers) >= 16 and all(map(_COUNT.fullmatch, numbers)):
            interfaces[name.strip()] = {key: int(numbers[at]) for key, at in zip(_NETDEV, _NETDEV_AT, strict=True)}
    for line in sections.get("link", "").splitlines():
        match = re.match(r"\d+: ([^:@\s]+)[^:]*:.* mtu (\d{1,9})\b", line)
        if match and match[1] in interfaces:
            interfaces[match[1]]["mtu"] = int(match[2])
            if gso := re.search(r"\bgso_max_size (\d{1,12})\b", line):
                interfaces[match[1]]["gso_max_bytes"] = int(gso[1])
    for title, text in sections.items():
        kind, _, name = title.partition(" ")
        if kind == "offloads" and name in interfaces:
            interfaces[name]["offloads"] = sorted(line.partition(":")[0].strip() for line in text.splitlines())
    return interfaces


def _retransmitted(text: str) -> int | None:
    lines = [line.split()[1:] for line in text.splitlines() if line.startswith("Tcp:")]
    if len(lines) < 2 or "RetransSegs" not in lines[0]:
        return None
    at = lines[0].index("RetransSegs")
    return int(lines[1][at]) if at < len(lines[1]) and _COUNT.fullmatch(lines[1][at]) else None
