"""Evidence: what several paths carried at once, compared with what each carried alone (Choreo section 3.3.2).

Records are part of a History, so that a model can be made, and made again, from that file alone.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator
from typing_extensions import Self

from gavotte.formats.files.reading import Emitted, problem
from gavotte.formats.parts.names import HostName

SharingVerdict = Literal["shared", "independent", "unknown"]
RateBps = Annotated[float, Field(ge=0)]


class Evidence(Emitted):
    """One concurrent experiment. Rates are TCP goodput in bit/s, in the order of `pairs`.

    Attributes:
        subject: name of the link that it was to load: `out of rack-0`.
        pairs: (source, target) names that sent at the same time.
        alone_bps: what each pair carried without other probes of ours. With more than a few pairs, every second pair of
            the experiment was measured at the same time.
        together_bps: what each carried while all were sending.
        sum_bps: sum of `together_bps`.
        low_bps: lower end of the sum's 95 % interval.
        high_bps: upper end of the sum's 95 % interval.
        overlap_s: how long all were sending.
        time_s: Unix time of the experiment.
        verdict: whether the sum fell below the sum of what each carried alone.
        reason: why the verdict is `unknown`, in one line.
    """

    subject: str = ""
    pairs: Annotated[list[tuple[HostName, HostName]], Field(min_length=1)]
    alone_bps: list[RateBps]
    together_bps: list[RateBps]
    sum_bps: RateBps
    low_bps: RateBps
    high_bps: RateBps
    overlap_s: Annotated[float, Field(ge=0)]
    time_s: float = 0.0
    verdict: SharingVerdict
    reason: str = ""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for key in ("alone_bps", "together_bps"):
            rates = len(getattr(self, key))
            if rates != len(self.pairs):
                raise problem(f"has {rates} rates for {len(self.pairs)} pairs", "give one rate a pair", field=key)
        return self
