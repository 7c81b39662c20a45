"""All verbs by name, in the order of the loop."""

from __future__ import annotations

from typing import Annotated

import typer

from gavotte.cli.collective import collective
from gavotte.cli.demo import demo
from gavotte.cli.export import export
from gavotte.cli.history import history
from gavotte.cli.hosts import hosts
from gavotte.cli.lab import lab
from gavotte.cli.map import map_
from gavotte.cli.measure import measure
from gavotte.cli.model import model
from gavotte.cli.place import place
from gavotte.cli.profile import profile
from gavotte.cli.run import run
from gavotte.cli.schema import schema
from gavotte.cli.sequence import sequence
from gavotte.cli.shim import shim
from gavotte.cli.simulate import simulate
from gavotte.cli.watch import watch

app = typer.Typer(
    name="gavotte",
    help="Makes distributed applications faster on a network that you can neither see nor control.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from gavotte import _core

        typer.echo(f"gavotte {_core.version()} ({_core.build_profile()})")
        raise typer.Exit


@app.callback()
def gavotte(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and leave.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Measure a network, place an application on it, run it, and see the gain."""


app.command()(demo)
app.add_typer(lab, name="lab")
app.add_typer(hosts, name="hosts")
app.add_typer(measure, name="measure")
app.add_typer(history, name="history")
app.command()(model)
app.add_typer(profile, name="profile")
app.command()(place)
app.command()(sequence)
app.command()(export)
app.command()(collective)
app.command()(shim)
app.command("map")(map_)
app.command()(run)
app.command()(watch)
app.command()(simulate)
app.command()(schema)
