"""Plan, run, report and compare repeatable measurement campaigns, modelled on OSMeF.

One file describes the study (a Campaign) and one `*.jsonl` file holds its Samples.
"""

from gavotte.campaign.comparing import Comparison, Difference, compare
from gavotte.campaign.journal import Journal, write_samples
from gavotte.campaign.osmef import read_osmef
from gavotte.campaign.planning import CampaignPlan, Planned, check_budget, plan
from gavotte.campaign.reporting import report
from gavotte.campaign.running import Done, run
from gavotte.campaign.tabling import write_parquet

__all__ = [
    "CampaignPlan",
    "Comparison",
    "Difference",
    "Done",
    "Journal",
    "Planned",
    "check_budget",
    "compare",
    "plan",
    "read_osmef",
    "report",
    "run",
    "write_parquet",
    "write_samples",
]
