"""All verbs by name, in the order of the loop."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from gavotte.cli import lists
from gavotte.cli.defaults import trust_defaults
from gavotte.cli.logs import everywhere, show
from gavotte.cli.seconds import accept_units
from gavotte.cli.settings.files import find_paths
from gavotte.cli.writing import protect


def _version(requested: bool) -> None:
    if requested:
        from gavotte.cli.version import version as line

        typer.echo(line())
        raise typer.Exit


def gavotte(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_version, is_eager=True)
    ] = False,
    verbose: Annotated[
        int,
        typer.Option(
            "-v",
            "--verbose",
            help="Log actions to stderr, and print all rows and statistics; -vv logs every step. Allowed before and "
            "after the verb.",
            callback=show,
            count=True,
            expose_value=False,
            show_default=False,
        ),
    ] = 0,
) -> None:
    """Measure a network, place an application on it, run it, and see the gain."""


VERBS: tuple[tuple[str, str, str], ...] = (
    ("demo", "demo.demo", "--report gain.html"),
    ("lab", "lab.lab", "up cloud.topology.toml"),
    ("hosts", "hosts.hosts", "check --hosts my.hosts.toml"),
    ("measure", "measure.measure", "--hosts lab --sharing -o cloud.npz"),
    ("history", "history.history", "show cloud --last 10"),
    ("model", "model.model", "cloud.npz -o cloud.network.json"),
    ("compare", "compare.compare", "monday.npz tuesday.npz"),
    ("profile", "profile.profile", "pcap capture.pcap --tasks tasks.hosts -o app.app.toml"),
    ("place", "place.place", "cloud.network.json sort.app.toml -o sort.placement.json"),
    ("sequence", "sequence.sequence", "cloud.network.json a.app.toml b.app.toml --every 60 --migration-cost 5"),
    ("ranks", "ranks.ranks", "--hosts lab --pattern ring"),
    ("keep", "keep.keep", "8 --network cloud.network.json --pattern alltoall"),
    ("launch", "launch.launch", "--hosts lab -- mpirun -n 8 ./solver"),
    ("export", "export.export", "sort.placement.json --format openmpi -o ranks"),
    ("collective", "collective.collective", "cloud.network.json --operation broadcast --root vm0 -o bcast.tree.json"),
    ("shim", "shim.shim", "--mpicc mpicc -o libgavotte-mpi.so"),
    ("map", "map.map_", "cloud.network.json app.app.toml -o app.placement.json"),
    ("run", "run.run", "sort.placement.json sort.app.toml --hosts lab"),
    ("broadcast", "broadcast.broadcast", "data.bin --hosts lab --from vm0 -o '/tmp/data-{host}.bin'"),
    (
        "pull",
        "pull.pull",
        "model.bin --hosts lab --from vm0 --on vm3 -o '/tmp/model-{host}.bin' --cache '/tmp/cache-{host}'",
    ),
    ("shuffle", "shuffle.shuffle", "bytes.csv --hosts lab --network cloud.network.json"),
    ("watch", "watch.watch", "cloud.network.json --hosts lab --every 60 -o cloud.network.json"),
    ("transfers", "queue.transfers", "serve --hosts lab --network cloud.network.json"),
    ("guarantee", "guarantee.guarantee", "apply cloud.guarantee.toml --hosts lab"),
    ("simulate", "simulate.simulate", "cloud.topology.toml flows.csv -o finish.csv"),
    ("campaign", "campaign.campaign", "run study.campaign.toml -o study.jsonl"),
    ("report", "report.report", "--network cloud.network.json -o cloud.html"),
    ("schema", "schema.schema", "topology"),
    ("config", "config.config", "--json"),
)
"""Name, module and function of each verb, and the example in its help."""

NAMES = tuple(name for name, _, _ in VERBS)

WORKFLOW: dict[str, tuple[str, ...]] = {
    "Start": ("demo", "lab", "config", "schema"),
    "See the network": ("hosts", "measure", "model", "compare"),
    "Know the application": ("profile",),
    "Place and run": ("place", "sequence", "ranks", "keep", "map", "export", "launch", "run", "simulate"),
    "Speed up collectives": ("collective", "shim"),
    "Move data": ("broadcast", "pull", "shuffle", "transfers"),
    "Protect": ("guarantee",),
    "Watch": ("watch",),
    "Keep results": ("history", "campaign", "report"),
}
"""Verbs by what they are for, in the order of the help."""


class _ByWorkflow(TyperGroup):
    """The command, whose help lists verbs in the order of `WORKFLOW`."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - as typer calls it
        return [name for names in WORKFLOW.values() for name in names if name in self.commands]


def build(wanted: Collection[str]) -> typer.Typer:
    """Return the command with these verbs. Load their modules only: all modules take half a second."""
    app = typer.Typer(
        name="gavotte",
        cls=_ByWorkflow,
        help="Make distributed applications faster on a network that you can neither see nor control.",
        epilog="Example: gavotte demo",
        no_args_is_help=True,
        add_completion=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(gavotte)
    for name, path, example in VERBS:
        if name in wanted:
            module, attribute = path.split(".")
            verb: Callable[..., object] | typer.Typer = getattr(import_module(f"gavotte.cli.{module}"), attribute)
            epilog = f"Example: gavotte {name} {example}"
            panel = next(title for title, names in WORKFLOW.items() if name in names)
            if isinstance(verb, typer.Typer):
                app.add_typer(verb, name=name, epilog=epilog, rich_help_panel=panel)
            else:
                app.command(name, cls=lists.command(name), epilog=epilog, rich_help_panel=panel)(verb)
    return app


def command_for(words: Sequence[str]) -> Callable[..., Any]:
    """Return the command for a command line: with the verb that it names, else with all verbs."""
    first = next((word for word in words if not word.startswith("-")), "")
    command = load([first] if first in NAMES else NAMES)
    if first in NAMES and first != "config" and not _asks_for_help(words) and find_paths():
        from gavotte.cli.settings.applying import apply_settings

        apply_settings(command, words, NAMES)
    return command


def load(names: Collection[str]) -> Callable[..., Any]:
    """Return the command with these verbs, and with what all verbs have in common."""
    command = everywhere(build(names))
    protect(command)
    trust_defaults(command)
    accept_units(command)
    return command


def _asks_for_help(words: Sequence[str]) -> bool:
    """Report whether a command line asks for help, which says what a command does in any folder."""
    own = words[: words.index("--")] if "--" in words else words
    return "--help" in own or "-h" in own


if TYPE_CHECKING:
    app: typer.Typer


def __getattr__(name: str) -> typer.Typer:
    """Build `app`, the command with all verbs, on first use."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()["app"] = built = build(NAMES)
    return built
