"""Measurement campaigns that others can repeat: one file is the study, one `*.jsonl` its samples. After OSMeF.

In flows a Campaign; out come its plan, Samples, and reports and comparisons of them.
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
