"""Write the state of guarantees in Prometheus' text format 0.0.4."""

from __future__ import annotations

from gavotte.guarantee.applying import GuaranteeStatus

_PAIRS = {
    "guarantee_bps": ("gauge", "Guarantee of a pair, bit/s."),
    "limit_bps": ("gauge", "Most that a pair may send now, bit/s."),
    "rate_bps": ("gauge", "Rate at which bytes of a pair arrive, bit/s."),
    "met": ("gauge", "Share of the last minute's 200 ms windows in which the guarantee was met."),
    "marks": ("counter", "Packets of a pair that were marked."),
    "lost": ("counter", "Packets of a pair that were lost."),
}


def prometheus(status: GuaranteeStatus) -> str:
    """Write the state of all pairs and hosts as metrics named `gavotte_guarantee_...`."""
    lines = []
    for field, (kind, meaning) in _PAIRS.items():
        name = f"gavotte_guarantee_pair_{field}" + ("_total" if kind == "counter" else "")
        lines += [f"# HELP {name} {meaning}", f"# TYPE {name} {kind}"]
        for pair in status.pairs:
            value = getattr(pair, field)
            if value is not None:
                lines.append(f"{name}{_labels(source=pair.source, target=pair.target)} {value}")
    name = "gavotte_guarantee_host_up"
    lines += [f"# HELP {name} Whether the host's agent enforces guarantees as it should.", f"# TYPE {name} gauge"]
    lines += [f"{name}{_labels(host=host.host)} {int(not host.why)}" for host in status.hosts]
    name = "gavotte_guarantee_host_unlisted_bps"
    lines += [f"# HELP {name} Rate that arrives from hosts without guarantees, bit/s.", f"# TYPE {name} gauge"]
    lines += [f"{name}{_labels(host=host.host)} {host.unlisted_bps}" for host in status.hosts]
    return "\n".join(lines) + "\n"


def _labels(**labels: str) -> str:
    escaped = {
        name: text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n") for name, text in labels.items()
    }
    return "{" + ",".join(f'{name}="{text}"' for name, text in escaped.items()) + "}"
