"""Dates and times in ISO 8601, as Python reads them from 3.11 on."""

from __future__ import annotations

import re
import sys
from datetime import datetime

_FRACTION = re.compile(r"(?<=:\d\d)\.(\d+)")


def read_date(text: str) -> datetime:
    """Read a date or time such as `2026-11-20` or `2026-11-20T18:00:00.123456789Z`.

    Raises:
        ValueError: for anything else.
    """
    if sys.version_info < (3, 11):
        # Python 3.10 reads neither `Z` nor a fraction that does not have 3 or 6 digits.
        text = text[:-1] + "+00:00" if text.endswith("Z") else text
        text = _FRACTION.sub(lambda digits: "." + digits[1][:6].ljust(6, "0"), text)
    return datetime.fromisoformat(text)
