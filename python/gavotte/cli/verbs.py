"""All verbs by name, in the order of the loop."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

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


class Verb(NamedTuple):
    """A verb of the command line.

    Attributes:
        name: as it is typed.
        function: its module in this folder and the name there, of a function or of a group of commands.
        help: what it does in a sentence. The help of all verbs prints it without loading their modules.
        example: the example in its own help.
    """

    name: str
    function: str
    help: str
    example: str


VERBS: tuple[Verb, ...] = (
    Verb(
        "demo",
        "demo.demo",
        "Measure an emulated cloud, place a captured application on it, send its bytes and show the gain.",
        "--report gain.html",
    ),
    Verb(
        "lab",
        "lab.lab",
        "Emulate a cloud on this machine, out of network namespaces, from a *.topology.toml.",
        "up cloud.topology.toml",
    ),
    Verb(
        "hosts",
        "hosts.hosts",
        "List and check your hosts, find slow ones, install agents on them, make keys for TLS.",
        "check --hosts my.hosts.toml",
    ),
    Verb(
        "measure",
        "measure.measure",
        "Measure every directed path between the hosts.",
        "--hosts lab --sharing -o cloud.npz",
    ),
    Verb(
        "history",
        "history.history",
        "Keep snapshots and Records in a database: import, list, show, export, delete.",
        "show cloud --last 10",
    ),
    Verb(
        "model",
        "model.model",
        "Learn the lasting rate of each pair and the caps of each host, and whether placing will pay.",
        "cloud.npz -o cloud.network.json",
    ),
    Verb(
        "compare",
        "compare.compare",
        "Show what has changed in a network. Exits with 0 if alike, 3 if different, 4 if it cannot tell.",
        "monday.npz tuesday.npz",
    ),
    Verb(
        "profile",
        "profile.profile",
        "Find out which task sends how many bytes to which other task.",
        "pcap capture.pcap --tasks tasks.hosts -o app.app.toml",
    ),
    Verb(
        "place",
        "place.place",
        "Decide which task runs on which host, so that the application finishes soonest.",
        "cloud.network.json sort.app.toml -o sort.placement.json",
    ),
    Verb(
        "sequence",
        "sequence.sequence",
        "Place applications as they arrive, next to those that run, and migrate tasks where that pays.",
        "cloud.network.json a.app.toml b.app.toml --every 60 --migration-cost 5",
    ),
    Verb(
        "ranks",
        "ranks.ranks",
        "Print the host of each rank, one line each, so that a communication pattern takes least time.",
        "--hosts lab --pattern ring",
    ),
    Verb(
        "keep",
        "keep.keep",
        "Decide which hosts to keep and which to give back, so that an application on those kept finishes soonest.",
        "8 --network cloud.network.json --pattern alltoall",
    ),
    Verb(
        "launch",
        "launch.launch",
        "Run a job with its ranks where their messages take least time. The first run counts the messages.",
        "--hosts lab -- mpirun -n 8 ./solver",
    ),
    Verb(
        "export",
        "export.export",
        "Write a Placement for a launcher or framework, or a Network as a scheduler's topology.",
        "sort.placement.json --format openmpi -o ranks",
    ),
    Verb(
        "collective",
        "collective.collective",
        "Find the tree or ring along which a collective operation is fastest, and in how many pieces.",
        "cloud.network.json --operation broadcast --root vm0 -o bcast.tree.json",
    ),
    Verb(
        "shim",
        "shim.shim",
        "Build a library that, when preloaded, runs an MPI program's collectives along trees, given or found.",
        "--mpicc mpicc -o libgavotte-mpi.so",
    ),
    Verb(
        "map",
        "map.map_",
        "Give each task its own host, so that tasks with much traffic are close together.",
        "cloud.network.json app.app.toml -o app.placement.json",
    ),
    Verb(
        "run",
        "run.run",
        "Send the bytes that the placed tasks exchange over the real network, and time them.",
        "sort.placement.json sort.app.toml --hosts lab",
    ),
    Verb(
        "broadcast",
        "broadcast.broadcast",
        "Send a file from one host to many, as fast as the network allows.",
        "data.bin --hosts lab --from vm0 -o '/tmp/data-{host}.bin'",
    ),
    Verb(
        "pull",
        "pull.pull",
        "Copy a file to one host, from the nearest hosts whose caches have its blocks.",
        "model.bin --hosts lab --from vm0 --on vm3 -o '/tmp/model-{host}.bin' --cache '/tmp/cache-{host}'",
    ),
    Verb(
        "shuffle",
        "shuffle.shuffle",
        "Move a matrix of bytes so that all flows finish together, as early as possible (weighted shuffle scheduling).",
        "bytes.csv --hosts lab --network cloud.network.json",
    ),
    Verb(
        "watch",
        "watch.watch",
        "Keep measuring a few pairs, distinguish a change from a spike, and measure again what has changed.",
        "cloud.network.json --hosts lab --every 60 -o cloud.network.json",
    ),
    Verb(
        "transfers",
        "queue.transfers",
        "Order the transfers of several applications.",
        "serve --hosts lab --network cloud.network.json",
    ),
    Verb(
        "guarantee",
        "guarantee.guarantee",
        "Guarantee hosts the bandwidth given in a *.guarantee.toml, and let them share unused bandwidth.",
        "apply cloud.guarantee.toml --hosts lab",
    ),
    Verb(
        "simulate",
        "simulate.simulate",
        "Predict when flows finish on a network that they share max-min fairly.",
        "cloud.topology.toml flows.csv -o finish.csv",
    ),
    Verb(
        "campaign",
        "campaign.campaign",
        "Plan, run, report and compare measurement campaigns.",
        "run study.campaign.toml -o study.jsonl",
    ),
    Verb(
        "report",
        "report.report",
        "Show rates, shared links, placements and their measured times on one self-contained HTML page.",
        "--network cloud.network.json -o cloud.html",
    ),
    Verb(
        "serve",
        "serve.serve",
        "Show networks, jobs and transfers live in a browser, and answer schedulers: Topograph, Kubernetes, metrics.",
        "--store cloud.sqlite3",
    ),
    Verb(
        "schema",
        "schema.schema",
        "Print the JSON schema of a file format.",
        "topology",
    ),
    Verb(
        "config",
        "config.config",
        "Print the settings of `gavotte.toml` files and variables that hold in this folder, and where each comes from.",
        "--json",
    ),
)
"""All verbs, in the order of the loop."""

NAMES = tuple(verb.name for verb in VERBS)

WORKFLOW: dict[str, tuple[str, ...]] = {
    "Start": ("demo", "lab", "config", "schema"),
    "See the network": ("hosts", "measure", "model", "compare"),
    "Know the application": ("profile",),
    "Place and run": ("place", "sequence", "ranks", "keep", "map", "export", "launch", "run", "simulate"),
    "Speed up collectives": ("collective", "shim"),
    "Move data": ("broadcast", "pull", "shuffle", "transfers"),
    "Protect": ("guarantee",),
    "Watch": ("watch", "serve"),
    "Keep results": ("history", "campaign", "report"),
}
"""Verbs by what they are for, in the order of the help."""


class _ByWorkflow(TyperGroup):
    """The command, whose help lists verbs in the order of `WORKFLOW`."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - as typer calls it
        return [name for names in WORKFLOW.values() for name in names if name in self.commands]


def build(wanted: Collection[str]) -> typer.Typer:
    """Return the command with these verbs. Load their modules only: all modules take half a second."""
    app = _bare()
    for verb in VERBS:
        if verb.name in wanted:
            module, attribute = verb.function.split(".")
            loaded: Callable[..., object] | typer.Typer = getattr(import_module(f"gavotte.cli.{module}"), attribute)
            epilog = f"Example: gavotte {verb.name} {verb.example}"
            if isinstance(loaded, typer.Typer):
                app.add_typer(loaded, name=verb.name, epilog=epilog, rich_help_panel=_panel(verb.name))
            else:
                listing = lists.command(verb.name)
                app.command(verb.name, cls=listing, epilog=epilog, rich_help_panel=_panel(verb.name))(loaded)
    return app


def outline() -> typer.Typer:
    """Return the command with the names of all verbs and what each does, for its own help and for unknown verbs."""
    app = _bare()
    for verb in VERBS:
        app.command(verb.name, help=verb.help, rich_help_panel=_panel(verb.name))(_not_loaded)
    return app


def _bare() -> typer.Typer:
    """Return the command without any verb."""
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
    return app


def _panel(name: str) -> str:
    """Return the title under which the help lists a verb."""
    return next(title for title, names in WORKFLOW.items() if name in names)


def _not_loaded() -> None:
    raise AssertionError("the verb's module is not loaded")


def command_for(words: Sequence[str]) -> Callable[..., Any]:
    """Return the command for a command line: with the verb that it names, else with the outlines of all verbs."""
    first = next((word for word in words if not word.startswith("-")), "")
    if first not in NAMES:
        return everywhere(outline())
    command = load([first])
    if first != "config" and not _asks_for_help(words) and find_paths():
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
