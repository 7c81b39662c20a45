"""PyTorch's torchrun, which users start once on each host: it takes no order of ranks for all hosts."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gavotte.errors import GavotteError


def refusal(words: Sequence[str]) -> GavotteError:
    """Return why `gavotte launch` does not start a torchrun command line, and what to do instead."""
    values = {}
    for index, word in enumerate(words):
        name, mark, value = word.lstrip("-").replace("_", "-").partition("=")
        if word.startswith("--"):
            values[name] = value if mark else "".join(words[index + 1 : index + 2])
    if re.fullmatch(r"\d+:\d+", values.get("nnodes", "")):
        return GavotteError(
            f"torchrun is elastic with --nnodes={values['nnodes']} and ignores an order of hosts",
            hint="use a fixed --nnodes with --rdzv-backend static",
        )
    if values.get("rdzv-backend", "static") != "static":
        return GavotteError(
            f"torchrun sorts hosts by name with --rdzv-backend {values['rdzv-backend']}",
            hint="use --rdzv-backend static with --node-rank",
        )
    return GavotteError(
        "torchrun runs once on each host, and `gavotte launch` starts one command",
        hint="give each host its place in the output of `gavotte ranks` as --node-rank",
    )
