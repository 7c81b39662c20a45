"""`gavotte schema`: print the JSON schema of a file format."""

from __future__ import annotations

from typing import Annotated

import typer

from gavotte.cli.output import emit_json


def schema(
    noun: Annotated[
        str,
        typer.Argument(
            help="File format to describe. A History is binary and has no schema.",
            metavar="NOUN",
        ),
    ],
) -> None:
    """Print the JSON schema of a file format."""
    from gavotte.errors import GavotteError
    from gavotte.formats.schemas import NOUNS
    from gavotte.formats.schemas import schema as describe

    if noun not in NOUNS:
        raise GavotteError(f"no schema for `{noun}`", hint=f"use one of {', '.join(NOUNS)}")
    emit_json(describe(noun))
