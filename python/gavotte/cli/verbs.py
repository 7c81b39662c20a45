"""All verbs by name, in the order of the loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from gavotte.cli.broadcast import broadcast
from gavotte.cli.collective import collective
from gavotte.cli.demo import demo
from gavotte.cli.export import export
from gavotte.cli.history import history
from gavotte.cli.hosts import hosts
from gavotte.cli.lab import lab
from gavotte.cli.logs import everywhere, show
from gavotte.cli.map import map_
from gavotte.cli.measure import measure
from gavotte.cli.model import model
from gavotte.cli.place import place
from gavotte.cli.profile import profile
from gavotte.cli.report import report
from gavotte.cli.run import run
from gavotte.cli.schema import schema
from gavotte.cli.sequence import sequence
from gavotte.cli.shim import shim
from gavotte.cli.shuffle import shuffle
from gavotte.cli.simulate import simulate
from gavotte.cli.transfers import transfers
from gavotte.cli.watch import watch

app = typer.Typer(
    name="gavotte",
    help="Make distributed applications faster on a network that you can neither see nor control.",
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
        bool, typer.Option("--version", help="Print the version and exit.", callback=_version, is_eager=True)
    ] = False,
    verbose: Annotated[
        int,
        typer.Option(
            "-v",
            "--verbose",
            help="Log to stderr what is done; -vv logs each step. May stand before or after the verb.",
            callback=show,
            count=True,
            expose_value=False,
            show_default=False,
        ),
    ] = 0,
) -> None:
    """Measure a network, place an application on it, run it, and see the gain."""


VERBS: tuple[tuple[str, Callable[..., object] | typer.Typer, str], ...] = (
    ("demo", demo, "--report gain.html"),
    ("lab", lab, ""),
    ("hosts", hosts, ""),
    ("measure", measure, ""),
    ("history", history, ""),
    ("model", model, "cloud.npz -o cloud.network.json"),
    ("profile", profile, ""),
    ("place", place, "cloud.network.json sort.app.toml -o sort.placement.json"),
    ("sequence", sequence, "cloud.network.json a.app.toml b.app.toml --every 60 --migration-cost 5"),
    ("export", export, "sort.placement.json --format openmpi -o ranks"),
    ("collective", collective, "cloud.network.json --operation broadcast --root vm0 -o bcast.tree.json"),
    ("shim", shim, "--mpicc mpicc -o libgavotte-mpi.so"),
    ("map", map_, "cloud.network.json app.app.toml -o app.placement.json"),
    ("run", run, "sort.placement.json sort.app.toml --hosts lab"),
    ("broadcast", broadcast, "data.bin --hosts lab --from vm0 -o '/tmp/data-{host}.bin'"),
    ("shuffle", shuffle, "bytes.csv --hosts lab --network cloud.network.json"),
    ("watch", watch, "cloud.network.json --hosts lab --every 60 -o cloud.network.json"),
    ("transfers", transfers, ""),
    ("simulate", simulate, "cloud.topology.toml flows.csv -o finish.csv"),
    ("report", report, "--network cloud.network.json -o cloud.html"),
    ("schema", schema, "topology"),
)
"""Name, what carries it out, and the example that its help shows; groups show one for each of their verbs."""

for _name, _verb, _example in VERBS:
    if isinstance(_verb, typer.Typer):
        app.add_typer(_verb, name=_name)
    else:
        app.command(_name, epilog=f"Example: gavotte {_name} {_example}")(_verb)

command = everywhere(app)
