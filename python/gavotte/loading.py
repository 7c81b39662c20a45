"""Packages whose public names are loaded on first use.

A command uses few of a room's modules. Loading all of them takes most of the time that a short command has.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import Any


class Package(ModuleType):
    """A package that knows which module defines each of its public names, and loads the module on first use."""

    _homes: Mapping[str, str] = {}

    def __getattr__(self, name: str) -> Any:
        home = self._homes.get(name)
        if home is None:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        value = getattr(import_module(home), name)
        vars(self)[name] = value
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        # Python sets each module that it has loaded as an attribute of its package, also one with a public name.
        if name not in self._homes or not isinstance(value, ModuleType):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*vars(self), *self._homes})


def load_on_first_use(package: str, modules: Mapping[str, tuple[str, ...]]) -> None:
    """Let a package load each of its public names on first use.

    Args:
        package: the package's full name.
        modules: the public names by the module that defines them. The name of a module is relative to the package, or
            begins with `gavotte.`.
    """
    homes = {
        name: module if module.startswith("gavotte.") else f"{package}.{module}"
        for module, names in modules.items()
        for name in names
    }
    itself = sys.modules[package]
    vars(itself)["_homes"] = homes
    itself.__class__ = Package
