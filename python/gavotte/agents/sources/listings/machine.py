"""What all listings have in common: machines with their addresses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gavotte.formats.parts.routes import TlsRoute

ZONE = "topology.kubernetes.io/zone"
"""The label of a machine's availability zone, as Kubernetes names it."""


@dataclass(frozen=True)
class Machine:
    """One machine of a listing.

    Attributes:
        ident: its unique name in the listing, such as an instance ID.
        name: the name that its owner gave it; empty = none.
        where: its place in the listing, for errors.
        private: addresses at which the other machines reach it, the usual one first.
        public: address at which it is reached from elsewhere; empty = none.
        user: login name; empty = the listing has none.
        port: port of its SSH server; None = the listing has none.
        labels: where it is, in the words of the provider.
        cpus: cores that tasks may use; None = the listing has none.
        memory_bytes: memory that tasks may use; None = the listing has none.
        agent: how its agent is reached, if one runs there; None = over SSH.
        absent: reason why it cannot be used now; empty = it runs.
    """

    ident: str
    name: str = ""
    where: str = ""
    private: tuple[str, ...] = ()
    public: str = ""
    user: str = ""
    port: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    cpus: float | None = None
    memory_bytes: int | None = None
    agent: TlsRoute | None = None
    absent: str = ""

    def with_more(self, other: Machine) -> Machine:
        """Return this machine with what another listing knows of it. The addresses of a running agent come first."""
        first, second = (other, self) if other.agent and not self.agent else (self, other)
        return replace(
            self,
            name=self.name or other.name,
            private=first.private or second.private,
            public=first.public or second.public,
            labels={**other.labels, **self.labels},
            cpus=self.cpus or other.cpus,
            memory_bytes=self.memory_bytes or other.memory_bytes,
            agent=first.agent,
            absent=self.absent or other.absent,
        )


def at(document: Any, path: str) -> Any:
    """Return the value at a path such as `network_interface.0.network_ip`; None = there is none."""
    for part in path.split("."):
        if isinstance(document, Mapping):
            document = document.get(part)
        elif isinstance(document, list) and part.isdecimal() and int(part) < len(document):
            document = document[int(part)]
        else:
            return None
    return document


def text_at(document: Any, *paths: str) -> str:
    """Return the first of several values that is a text and not empty; empty = none is."""
    values = (at(document, path) for path in paths)
    return next((value for value in values if isinstance(value, str) and value), "")
