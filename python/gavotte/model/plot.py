"""Draw how the constant settles with more snapshots, next to the rates themselves."""

from __future__ import annotations

import io

import numpy as np

from gavotte.extras import needs
from gavotte.model.constant import Constant
from gavotte.model.findings import NEAR_ENOUGH
from gavotte.model.judging import Findings
from gavotte.terms.norm import TOLERANCE


def picture(constant: Constant, findings: Findings, *, kind: str = "png") -> bytes:
    """Draw the RPCA paper's Fig. 5 for this data, next to the rates.

    Args:
        constant: the constant of the network.
        findings: the result of `judge`.
        kind: `png`, `svg` or `pdf`.

    Returns:
        The file's content.

    Raises:
        UnsupportedError: without matplotlib.
    """
    with needs("plots"):
        from matplotlib.figure import Figure
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.plot(findings.step_snapshots, [100 * share for share in findings.steps], "o-")
    left.axhline(100 * NEAR_ENOUGH, color="0.6", linestyle=":")
    left.set_xlabel("snapshots")
    left.set_ylabel(f"pairs more than {100 * TOLERANCE:.0f} % off [%]")
    left.set_ylim(bottom=0)
    left.set_title(f"constant by {findings.method}; norm {findings.norm.share:.2f} at {findings.norm.tolerance:.2f}")
    image = right.imshow(
        constant.rate_bps / 1e6, cmap="viridis", vmin=0, vmax=float(np.nanmax(constant.rate_bps)) / 1e6
    )
    right.set_xlabel("receiver")
    right.set_ylabel("sender")
    right.set_title("goodput that lasts [Mbit/s]")
    figure.colorbar(image, ax=right)
    buffer = io.BytesIO()
    # No date, so that the same input gives the same file.
    metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind, {})
    figure.savefig(buffer, format=kind, dpi=120, metadata=metadata)
    return buffer.getvalue()
