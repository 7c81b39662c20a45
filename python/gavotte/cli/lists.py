"""Lists of names in help texts. Each is read from the registry that knows the names, when the help is printed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, get_args

from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

REGISTRIES: dict[str, dict[str, str]] = {
    "measure": {"method": "gavotte.measure.METHODS", "engine": "gavotte.measure.plan.methods.bulk.ENGINES"},
    "history export": {"form": "gavotte.store.FORMATS"},
    "history import": {"form": "gavotte.store.FORMATS"},
    "model": {
        "method": "gavotte.model.METHODS",
        "purpose": "gavotte.model.PURPOSES",
        "sharing": "gavotte.formats.network.Sharing",
    },
    "place": {
        "method": "gavotte.place.METHODS",
        "goal": "gavotte.place.GOALS",
        "sharing": "gavotte.formats.network.Sharing",
    },
    "sequence": {"method": "gavotte.place.METHODS"},
    "export": {"form": "gavotte.export.ALL_FORMATS", "together": "gavotte.export.Together"},
    "collective": {"operation": "gavotte.collective.OPERATIONS", "algorithm": "gavotte.collective.ALGORITHMS"},
    "map": {"method": "gavotte.mapping.METHODS"},
    "broadcast": {"mechanism": "gavotte.transfer.planning.MECHANISMS"},
    "shuffle": {"mode": "gavotte.transfer.MODES"},
    "watch": {"method": "gavotte.measure.METHODS"},
    "transfers simulate": {"policy": "gavotte.transfer.POLICIES"},
    "transfers serve": {"policy": "gavotte.transfer.POLICIES"},
    "transfers submit": {"mechanism": "gavotte.transfer.underway.PACED"},
    "schema": {"noun": "gavotte.formats.schemas.NOUNS"},
}
"""Command to its options and arguments whose values are the names of a registry. Each is given by its parameter."""


OPTIONAL_VALUES = {"launch": {"--json": "-"}}
"""Command to its options whose value may be left out, with the value that they then have."""

PASSING = {"launch"}
"""Commands whose arguments are another command, with options of its own."""


def with_values(words: Sequence[str], values: Mapping[str, str]) -> list[str]:
    """Return the words of a command line with the values that were left out."""
    result: list[str] = []
    rest = list(words)
    while rest and rest[0] != "--":
        word = rest.pop(0)
        result.append(word)
        if word in values and (not rest or rest[0].startswith("-")):
            result.append(values[word])
    return result + rest


def names_in(registry: str) -> list[str]:
    """Return the names of a registry, a collection or a `Literal`, given by its module and attribute."""
    module, _, attribute = registry.rpartition(".")
    names = getattr(import_module(module), attribute)
    return list(get_args(names) or names)


def with_names(text: str, names: Sequence[str]) -> str:
    """Return a help text with a list of names at the end of its first sentence, unless the list is already in it."""
    listed = f": {', '.join(names[:-1])} or {names[-1]}."
    first, _, rest = text.partition(".")
    return text if listed in text else f"{first}{listed}{rest}"


def command(name: str) -> type[TyperCommand]:
    """Return the class of a command whose help lists the names that `REGISTRIES` gives for it."""

    class Listing(TyperCommand):
        allow_interspersed_args = name not in PASSING

        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            return super().parse_args(ctx, with_values(args, OPTIONAL_VALUES.get(name, {})))

        def get_help(self, ctx: Any) -> str:
            fill(self, name)
            return super().get_help(ctx)

    return Listing


def group(name: str) -> type[TyperGroup]:
    """Return the same for a group of commands with options of its own."""

    class Listing(TyperGroup):
        def get_help(self, ctx: Any) -> str:
            fill(self, name)
            return super().get_help(ctx)

    return Listing


def fill(command: Any, name: str) -> None:
    """Add the lists to the help texts. Registries load whole rooms, which a command without --help should not need."""
    registries = REGISTRIES.get(name, {})
    for option in command.params:
        if isinstance(option, TyperOption | TyperArgument) and option.name in registries:
            option.help = with_names(option.help or "", names_in(registries[option.name]))
