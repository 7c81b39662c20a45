"""`gavotte serve`: show a store in a browser, and answer over HTTP what schedulers ask about a Network."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gavotte.cli.declared import declared, option
from gavotte.cli.options import Json, MaybeHosts
from gavotte.cli.output import emit_line, note, warn


@dataclass(frozen=True)
class _Shown:
    """What to serve."""

    network: Path | None = option("The Network to serve; it is read again when it changes.", "N.network.json")
    store: str | None = option(
        "The store to show: networks over time, jobs, transfers, measurements. Without --network, your own by default.",
        "URL",
    )
    placement: Path | None = option("Score nodes for Kubernetes' scheduler by this Placement.", "P.placement.json")
    apps: list[Path] | None = option("An App of the Placement. May be repeated.", "A.app.toml", "--app")
    scheduler_extender: bool = option(
        "Score nodes for Kubernetes' scheduler, which --placement does also without this option.", default=False
    )
    watch_pods: bool = option(
        "Learn from a Kubernetes cluster on which nodes the pods of the Placement's tasks are.", default=False
    )
    label_nodes: bool = option("Keep the labels of a Kubernetes cluster's nodes as the Network says.", default=False)
    topology_file: Path | None = option(
        "The file that clients of Topograph's API may have written, such as /etc/slurm/topology.conf. They may then "
        "also ask for `scontrol reconfigure`. By default none.",
        "FILE",
    )
    older_labels: bool = option("Use the names of labels that Topograph 0.3 to 0.5 set.", default=False)
    remove_labels: bool = option(
        "Remove the labels that --label-nodes has set in the cluster, of all tiers, and serve nothing.", default=False
    )
    context: str = option("Context of that cluster in the kubeconfig.", "CONTEXT", default="", show_default=False)


@dataclass(frozen=True)
class _Actions:
    """What pages can start."""

    hosts: MaybeHosts = None
    guarantee: Path | None = option("A Guarantee that a page can apply to --hosts.", "G.guarantee.toml")
    socket: Path | None = option(
        "Socket of `gavotte transfers serve`, to cancel transfers. By default in the runtime folder.", "PATH"
    )
    read_only: bool = option("Let no page start or cancel anything.", default=False)


@dataclass(frozen=True)
class _Place:
    """Where to listen, and who may ask."""

    address: str = option("Address to listen at.", "ADDRESS", default="127.0.0.1")
    port: int = option(
        "Port to listen at; 0 = any. Topograph's clients expect 49021.", "PORT", default=8788, min=0, max=65535
    )
    cert: Path | None = option("Certificate for TLS, in PEM. Needed unless the address is loopback.", "FILE")
    key: Path | None = option("Private key of the certificate.", "FILE")
    password_file: Path | None = option(
        "File with the password that clients give. Needed unless the address is loopback.", "FILE"
    )
    token_file: Path | None = option(
        "Keep the token of the printed address in this file, so that the address stays the same.", "FILE"
    )


@declared
def serve(shown: _Shown, actions: _Actions, place: _Place, as_json: Json = False) -> None:
    """Show networks, jobs and transfers live in a browser, and answer schedulers: Topograph, Kubernetes, metrics."""
    from gavotte.serve import ServeQuestion, ServeSession
    from gavotte.serve import serve as answer

    question = ServeQuestion(
        shown.network,
        shown.placement,
        tuple(shown.apps or ()),
        place.address,
        place.port,
        place.cert,
        place.key,
        place.password_file,
        shown.label_nodes,
        shown.context,
        "" if shown.network is None and shown.store is None else shown.store,
        place.token_file,
        actions.hosts or "",
        actions.guarantee,
        actions.socket,
        actions.read_only,
        shown.topology_file,
        shown.scheduler_extender,
        shown.watch_pods,
        shown.older_labels,
        shown.remove_labels,
    )

    def ready(address: str) -> None:
        if as_json:
            emit_line({"address": address})
        else:
            print(address, flush=True)
        note("serving until Ctrl-C")

    answer(question, ServeSession(ready, lambda text: warn([text]), note))
