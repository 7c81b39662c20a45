"""Which options a file may set, and which of them many verbs share."""

from __future__ import annotations

from typing import Any

HERE = frozenset(
    {
        "add",
        "before",
        "discard",
        "dry-run",
        "force",
        "help",
        "history",
        "install-completion",
        "json",
        "json-like",
        "output",
        "ran",
        "records",
        "resume",
        "running",
        "show-completion",
        "take-over",
        "took",
        "version",
    }
)
"""Options that only a command line has. They say what this one call is for: what it writes, prints or permits."""

OWN = frozenset({"command", "exec", "live", "mpicc", "opensearch", "prometheus"})
"""Options that start a program or send data to an address. Only the user's own file may set them."""

ALL = "all"
"""Table of options that many verbs share. A key `hosts` without a table would exclude the table `[hosts.check]`."""

NETWORK_VERBS = ("ranks", "keep", "launch", "broadcast", "pull", "shuffle", "transfers serve", "guarantee plan")

SHARED: dict[str, tuple[str, ...] | None] = {
    "assumed-rate": None,
    "budget": None,
    "encrypt": None,
    "hosts": None,
    "network": NETWORK_VERBS,
    "price-per-gb": None,
    "seed": None,
    "socket": None,
    "store": None,
    "threads": None,
    "time-limit": None,
    "verbose": ("",),
}
"""Keys of that table, and the verbs to which each applies; None = all that have such an option.

A Network is not handed to verbs that make one or that read several kinds of files.
"""

HOSTS_METAVAR = "lab|FILE|..."
"""How the help shows an option that names hosts in any way. `place --hosts` reads something else."""

TEXT_FILES = frozenset({"hosts", "of", "pattern", "socket", "store"})
"""Options that are no paths to typer, but may name a file."""

VARIABLES = {"store": "GAVOTTE_STORE"}
"""Options that an environment variable sets."""


def key_of(option: Any) -> str:
    """Return the key of an option: its first long name."""
    return next((name for name in option.opts if name.startswith("--")), "").removeprefix("--")


def keys_of(option: Any) -> list[str]:
    """Return all long names of an option."""
    return [name.removeprefix("--") for name in option.opts if name.startswith("--")]


def options_of(command: Any) -> dict[str, Any]:
    """Return the options of a command by all their keys."""
    return {
        key: option
        for option in command.params
        if option.param_type_name == "option" and not (option.name == "verbose" and option.hidden)
        for key in keys_of(option)
    }


def writes(option: Any) -> bool:
    """Report whether an option names a file that the verb writes."""
    return getattr(option.callback, "target", None) is not None


def is_here(option: Any) -> bool:
    """Report whether only a command line has this option."""
    return key_of(option) in HERE or writes(option) or (key_of(option) == "prometheus" and bool(option.is_flag))


def is_shared(key: str, verb: str, option: Any) -> bool:
    """Report whether a key of [all] applies to an option.

    Args:
        key: the option's key.
        verb: the verb with its group, as `hosts check`; empty = the command without a verb.
        option: the option of that verb.
    """
    if key not in SHARED:
        return False
    verbs = SHARED[key]
    if verbs is not None and verb not in verbs:
        return False
    return key != "hosts" or option.metavar == HOSTS_METAVAR
