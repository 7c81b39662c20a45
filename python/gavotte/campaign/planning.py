"""From a Campaign to its samples in order, and what they cost. Pure: one file gives one plan, byte for byte."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gavotte.campaign.spelling import spelled
from gavotte.errors import GavotteError
from gavotte.formats.campaign import Background, Campaign, Scenario
from gavotte.formats.parts.rates import format_bytes
from gavotte.formats.topology import Topology

PLAN_FORMAT = "gavotte/campaign-plan/1"

OVERHEAD_S = 0.7
"""Seconds of a sample apart from its sending: enrolling agents, and states of endpoints before and after."""


@dataclass(frozen=True)
class Planned:
    """One sample to take.

    Attributes:
        sample: unique, and the same for one file whatever its seed.
        scenario: its name.
        repetition: from 0.
        pairs: (source, target) of all that send at once.
        connections: of each pair.
        flavour: of its endpoints; empty = no limit.
        engine: who sends.
        seconds: how long.
        optional: whether the stop rule may leave it out.
    """

    sample: str
    scenario: str
    repetition: int
    pairs: tuple[tuple[str, str], ...]
    connections: int
    flavour: str
    engine: str
    seconds: float
    optional: bool

    @property
    def source(self) -> str:
        """Its senders, joined by commas."""
        return ",".join(dict.fromkeys(source for source, _ in self.pairs))

    @property
    def target(self) -> str:
        """Its receivers, joined by commas."""
        return ",".join(dict.fromkeys(target for _, target in self.pairs))

    @property
    def cell(self) -> tuple[str, str, str, int, str]:
        """What it is a repetition of, as a Sample has it."""
        return (self.scenario, self.source, self.target, self.connections, self.flavour)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        fields = {key: value for key, value in asdict(self).items() if key != "pairs"}
        return {**fields, "source": self.source, "target": self.target, "pairs": [list(pair) for pair in self.pairs]}


@dataclass(frozen=True)
class CampaignPlan:
    """A campaign's samples in order.

    Attributes:
        campaign: what was planned.
        samples: in the order in which they are taken.
        digest: tells plans apart: of the campaign's content, whatever the file's layout.
        seconds: estimate, without the samples that the stop rule may add.
        bytes: estimate of the payload, the same.
        most_seconds: with all of those.
        most_bytes: with all of those.
    """

    campaign: Campaign
    samples: tuple[Planned, ...]
    digest: str
    seconds: float
    bytes: int
    most_seconds: float
    most_bytes: int

    def as_dict(self) -> dict[str, Any]:
        """For JSON: nothing in it depends on when or where it was planned."""
        return {
            "format": PLAN_FORMAT,
            "campaign": self.campaign.name,
            "seed": self.campaign.seed,
            "order": self.campaign.order,
            "digest": self.digest,
            "estimate": {
                "seconds": round(self.seconds, 3),
                "bytes": self.bytes,
                "most_seconds": round(self.most_seconds, 3),
                "most_bytes": self.most_bytes,
            },
            "samples": [sample.as_dict() for sample in self.samples],
        }


def plan(
    campaign: Campaign,
    *,
    topology: Topology | None = None,
    rate_bps: Callable[[str, str], float | None] | None = None,
) -> CampaignPlan:
    """Lays out a campaign.

    The order follows a hash of seed and sample, so that it is the same everywhere and for ever. Hosts are found without
    regard to case; the plan's campaign spells each of them in one way.

    Args:
        campaign: what to measure.
        topology: of the lab that it is measured in; a lab of another one is another campaign.
        rate_bps: the rate of a path in bit/s, as far as known, for the estimate.

    Raises:
        GavotteError: when samples have equal names.
    """
    campaign = spelled(campaign)
    every = [sample for scenario in campaign.scenario for sample in _samples(campaign, scenario)]
    if len({sample.sample for sample in every}) < len(every):
        raise GavotteError("the campaign's samples have equal names", hint="give hosts and scenarios other names")
    # Repetitions that a stop rule may add come last, one after the other, when its data is complete.
    ordered = sorted(
        every,
        key=lambda each: (
            each.optional,
            each.repetition if each.optional or campaign.order == "blocked" else 0,
            _place(campaign.seed, each.sample),
        ),
    )
    known = rate_bps or (lambda _source, _target: None)

    def payload(sample: Planned) -> int:
        rates = [known(*pair) or campaign.assumed_rate for pair in sample.pairs]
        return round(sample.seconds * sum(rates) / 8)

    def cost(samples: Sequence[Planned]) -> tuple[float, int]:
        return sum(each.seconds + OVERHEAD_S for each in samples), sum(map(payload, samples))

    seconds, size = cost([each for each in ordered if not each.optional])
    most_seconds, most_size = cost(ordered)
    return CampaignPlan(campaign, tuple(ordered), digest(campaign, topology), seconds, size, most_seconds, most_size)


def check_budget(planned: CampaignPlan, *, seconds: float | None, size_bytes: int | None) -> None:
    """Refuses a plan that would cost more than a limit; what a stop rule may add counts.

    Args:
        planned: the plan.
        seconds: the most seconds; None = no limit.
        size_bytes: the most bytes; None = no limit.

    Raises:
        GavotteError: naming the limit.
    """
    if seconds is not None and planned.most_seconds > seconds:
        raise GavotteError(
            f"the campaign takes up to {planned.most_seconds:.0f} s, but its budget is {seconds:g} s",
            hint="plan fewer repetitions or shorter samples, or raise the budget",
        )
    if size_bytes is not None and planned.most_bytes > size_bytes:
        raise GavotteError(
            f"the campaign sends up to {format_bytes(planned.most_bytes)}, but its budget is "
            f"{format_bytes(size_bytes)}",
            hint="plan fewer repetitions or shorter samples, or raise the budget",
        )


def digest(campaign: Campaign, topology: Topology | None = None) -> str:
    """Tells campaigns apart by what they and their topologies say; where their files lie does not matter."""
    content = campaign.model_dump(mode="json", exclude={"driver": {"topology", "hosts"}, "budget": True})
    if topology is not None:
        content["topology"] = topology.model_dump(mode="json")
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def background_of(campaign: Campaign, scenario: str) -> list[Background]:
    """Return the background traffic of a scenario's samples."""
    return next(each.background for each in campaign.scenario if each.name == scenario)


def _samples(campaign: Campaign, scenario: Scenario) -> list[Planned]:
    least = scenario.repetitions or campaign.repetitions
    most = least if campaign.stop is None else campaign.stop.most_repetitions
    samples = []
    for pairs in scenario.groups:
        for connections in scenario.connections:
            for flavour in scenario.flavours or [""]:
                for repetition in range(most):
                    sample = Planned(
                        sample="",
                        scenario=scenario.name,
                        repetition=repetition,
                        pairs=tuple(pairs),
                        connections=connections,
                        flavour=flavour,
                        engine=scenario.engine or campaign.engine,
                        seconds=scenario.seconds or campaign.seconds,
                        optional=repetition >= least,
                    )
                    samples.append(_named(sample, single=len(pairs) == 1))
    return samples


def _named(sample: Planned, *, single: bool) -> Planned:
    ends = [f"{sample.source}>{sample.target}"] if single else []
    flavour = [sample.flavour] if sample.flavour else []
    parts = [sample.scenario, *ends, f"p{sample.connections}", *flavour, f"r{sample.repetition}"]
    return Planned(**{**sample.__dict__, "sample": "/".join(parts)})


def _place(seed: int, sample: str) -> bytes:
    return hashlib.sha256(f"{seed}/{sample}".encode()).digest()
