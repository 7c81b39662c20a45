"""What to serve, and who may ask."""

from __future__ import annotations

import ipaddress
import os
import re
import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gavotte.errors import GavotteError

PORT = 8788
"""Default port. Clients of Topograph expect 49021."""

LOOPBACK = "127.0.0.1"

LEAST_PASSWORD = 12
"""Fewest characters of a password."""


@dataclass(frozen=True)
class ServeQuestion:
    """What to serve, and who may ask.

    Attributes:
        network: file of the Network; None = only a store is served.
        placement: file of a Placement that schedulers are to follow; None = none.
        apps: files of the Placement's Apps, whose bytes say which other host is next best.
        address: address to listen at. Other ones than loopback need TLS and a password.
        port: port to listen at; 0 = any free one.
        certificate: certificate for TLS, in PEM; None = no TLS.
        key: its private key.
        password_file: file with the password that clients must give by HTTP's basic authentication.
        label_nodes: whether to keep the labels of a Kubernetes cluster's nodes current.
        context: the context of that cluster, and of the one whose pods are watched, in the
            kubeconfig; empty = the current one, or the cluster of this process's pod.
        store: file or URL of a store to show; empty = the user's own one, None = no store.
        token_file: file that keeps the token of the printed address; None = each start has a new token.
        hosts: the hosts, as `agents.resolve_hosts` takes them, for what pages can start; empty = none.
        guarantee: file of the Guarantee that a page can apply to them; None = none.
        socket: socket of the controller of transfers; None = the default one.
        read_only: whether pages can start and cancel nothing.
        topology_file: the file of Slurm that clients of Topograph's API may have written; None = none.
        scheduler_extender: whether Kubernetes' scheduler is to get scores, which needs a Placement.
        older_labels: whether labels have the names that Topograph 0.3 to 0.5 gave them.
        remove_labels: whether to remove the labels of a cluster's nodes, and serve nothing.
        watch_pods: whether to learn from a Kubernetes cluster on which nodes the pods of the Placement's tasks are.
    """

    network: Path | None = None
    placement: Path | None = None
    apps: Sequence[Path] = ()
    address: str = LOOPBACK
    port: int = PORT
    certificate: Path | None = None
    key: Path | None = None
    password_file: Path | None = None
    label_nodes: bool = False
    context: str = ""
    store: str | None = None
    token_file: Path | None = None
    hosts: str = ""
    guarantee: Path | None = None
    socket: Path | None = None
    read_only: bool = False
    topology_file: Path | None = None
    scheduler_extender: bool = False
    watch_pods: bool = False
    older_labels: bool = False
    remove_labels: bool = False

    @property
    def is_local(self) -> bool:
        """Whether only this machine can ask."""
        return ipaddress.ip_address(self.address).is_loopback

    def check(self) -> None:
        """Refuse what cannot be served.

        Raises:
            GavotteError: naming the field and a remedy.
        """
        try:
            ipaddress.ip_address(self.address)
        except ValueError:
            raise GavotteError(f"`{self.address}` is not an address", hint=f"use one such as {LOOPBACK}") from None
        if (self.scheduler_extender or self.watch_pods) and self.placement is None:
            raise GavotteError(
                "the scheduler extender follows a Placement", hint="name the Placement: --placement FILE"
            )
        if self.remove_labels:
            if self.label_nodes:
                raise GavotteError("labels are either kept or removed", hint="leave out --label-nodes")
            return
        if self.network is None and self.store is None:
            raise GavotteError("there is nothing to serve", hint="name a Network, a store or both")
        if self.network is None and (self.label_nodes or self.placement is not None):
            raise GavotteError("schedulers and labels follow a Network", hint="name the Network")
        if self.topology_file is not None and self.network is None:
            raise GavotteError("Slurm's topology is that of a Network", hint="name the Network")
        if self.topology_file is not None and not self.topology_file.parent.is_dir():
            raise GavotteError(
                f"{self.topology_file}: {self.topology_file.parent} is no folder", hint="name a file next to slurm.conf"
            )
        if not 0 <= self.port <= 65535:
            raise GavotteError(f"{self.port} is not a port", hint="use 0 to 65535")
        if (self.certificate is None) != (self.key is None):
            raise GavotteError("TLS needs a certificate and its key", hint="give both")
        if not self.is_local and (self.certificate is None or self.password_file is None):
            raise GavotteError(
                f"others can reach {self.address}, so it needs TLS and a password",
                hint=f"give a certificate, its key and a password file, or serve at {LOOPBACK}",
            )
        if self.context and not (self.label_nodes or self.watch_pods):
            raise GavotteError(
                "a context is only used to label nodes and to watch pods", hint="add --label-nodes or --watch-pods"
            )
        if self.older_labels and self.network is None:
            raise GavotteError("labels follow a Network", hint="name the Network, or leave out --older-labels")
        if self.guarantee is not None and not self.hosts:
            raise GavotteError("guarantees are applied to hosts", hint="name the hosts")
        if self.apps and self.placement is None:
            raise GavotteError("applications are only used with a Placement", hint="name the Placement")

    def token(self) -> str:
        """Return the token of the printed address: that of its file, which is written if it is missing, or a new one.

        Raises:
            GavotteError: when others can read the file, it has no token, or it cannot be written.
        """
        new = secrets.token_urlsafe(24)
        if self.token_file is None:
            return new
        try:
            with suppress(FileExistsError):
                file = os.open(self.token_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                with os.fdopen(file, "w", encoding="utf-8") as opened:
                    opened.write(f"{new}\n")
            others = self.token_file.stat().st_mode & 0o077
            token = self.token_file.read_text("utf-8").strip()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "is not text"
            raise GavotteError(f"{self.token_file}: {reason}", hint="name a file of your own") from None
        if others:
            raise GavotteError(f"{self.token_file}: others can use it", hint=f"chmod 600 {self.token_file}")
        if not re.fullmatch(r"[A-Za-z0-9_-]{24,200}", token):
            raise GavotteError(f"{self.token_file}: has no token", hint="remove it, and a new one is written")
        return token

    def password(self) -> str:
        """Return the password; empty = none is needed.

        Raises:
            GavotteError: when its file cannot be read, or has too short a password.
        """
        if self.password_file is None:
            return ""
        try:
            text = self.password_file.read_text("utf-8").strip()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "is not text"
            raise GavotteError(f"{self.password_file}: {reason}", hint="name a file with one password") from None
        if len(text) < LEAST_PASSWORD or "\n" in text:
            raise GavotteError(
                f"{self.password_file}: has no password of {LEAST_PASSWORD} characters or more on one line",
                hint="e.g. openssl rand -hex 16 > FILE",
            )
        return text
