"""Plan, run, report and compare repeatable measurement campaigns, modelled on OSMeF.

One file describes the study (a Campaign) and one `*.jsonl` file holds its Samples.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gavotte.loading import load_on_first_use

if TYPE_CHECKING:
    from gavotte.campaign.archiving import Archive, archive
    from gavotte.campaign.comparing import Comparison, Difference, compare
    from gavotte.campaign.journal import Journal, write_samples
    from gavotte.campaign.osmef import read_osmef
    from gavotte.campaign.planning import CampaignPlan, Planned, check_budget, plan
    from gavotte.campaign.reporting import report
    from gavotte.campaign.running import Done, RemainingSamples, remaining, run
    from gavotte.campaign.scheduling import check_rounds, round_path, rounds
    from gavotte.campaign.shapes import like_iperf3, like_opensearch
    from gavotte.campaign.tabling import write_parquet

__all__ = [
    "Archive",
    "CampaignPlan",
    "Comparison",
    "Difference",
    "Done",
    "Journal",
    "Planned",
    "RemainingSamples",
    "archive",
    "check_budget",
    "check_rounds",
    "compare",
    "like_iperf3",
    "like_opensearch",
    "plan",
    "read_osmef",
    "remaining",
    "report",
    "round_path",
    "rounds",
    "run",
    "write_parquet",
    "write_samples",
]

load_on_first_use(
    __name__,
    {
        "archiving": ("Archive", "archive"),
        "comparing": ("Comparison", "Difference", "compare"),
        "journal": ("Journal", "write_samples"),
        "osmef": ("read_osmef",),
        "planning": ("CampaignPlan", "Planned", "check_budget", "plan"),
        "reporting": ("report",),
        "running": ("Done", "RemainingSamples", "remaining", "run"),
        "scheduling": ("check_rounds", "round_path", "rounds"),
        "shapes": ("like_iperf3", "like_opensearch"),
        "tabling": ("write_parquet",),
    },
)
