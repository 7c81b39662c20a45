"""`gavotte pull`: copy an object to one host, from caches near it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from gavotte.cli.declared import REQUIRED, declared, option
from gavotte.cli.options import Encrypt, Hosts, Json, copy_path, read_size
from gavotte.cli.output import emit_json, emit_table, note, unknown_pairs, warn
from gavotte.cli.progress import BYTES, progress
from gavotte.formats.parts.rates import format_bytes


@dataclass(frozen=True)
class PullOptions:
    """Which host gets the object, and which caches serve it."""

    hosts: Hosts
    source: str = option("Host that has the object.", "HOST", "--from", default=REQUIRED)
    on: str = option("Host that gets the copy.", "HOST", default=REQUIRED)
    output: str = option(
        "Path of the copy; {host} is replaced by the host's name.", "PATH", "-o", "--output", default=REQUIRED
    )
    cache: str = option("Folder of each host's cache; {host} is replaced by the host's name.", "DIR", default=REQUIRED)
    cache_bytes: str = option("Most bytes that a host keeps in its cache.", "SIZE", default="10gb")
    network: Path | None = option("Network between the hosts, by which near caches serve first.", "N.network.json")
    max_seconds: float = option("Give up after this many seconds.", "SECONDS", default=3600.0, min=0.1)
    encrypt: Encrypt = False


@declared
def pull(
    file: Annotated[str, typer.Argument(help="File or folder to copy, as a path on the --from host.", metavar="FILE")],
    asked: PullOptions,
    as_json: Json = False,
) -> None:
    """Copy a file to one host, from the nearest hosts whose caches have its blocks."""
    from gavotte.agents import resolve_hosts
    from gavotte.formats.network import read_network
    from gavotte.transfer import HostCache, PullQuestion
    from gavotte.transfer import pull as carry_out

    network = None if asked.network is None else read_network(asked.network)
    if network is not None:
        warn(unknown_pairs(network))
    question = PullQuestion(
        str(Path(file).absolute()),
        resolve_hosts(asked.hosts),
        asked.source,
        asked.on,
        copy_path(asked.output),
        HostCache(copy_path(asked.cache.rstrip("/")), read_size("--cache-bytes", asked.cache_bytes)),
        network,
        asked.max_seconds,
        asked.encrypt,
    )
    with progress("pulling", BYTES) as advance:
        arrived = 0

        def watch(done: int, total: int) -> None:
            nonlocal arrived
            arrived = done
            advance(done, total)

        try:
            result = carry_out(question, watch)
        except BaseException as stop:
            # A signal unwinds by an exception that is no error.
            if arrived and not isinstance(stop, Exception):
                note(f"{question.names[1]} keeps what has arrived at {question.copy}.partial: the same command goes on")
            raise
    for line in result.changes:
        note(line)
    warn(result.warnings)
    if as_json:
        emit_json(
            {
                "bytes": result.bytes,
                "cached_bytes": result.cached_bytes,
                "sent_bytes": result.sent_bytes,
                "elapsed_s": result.elapsed_s,
                "checksum": result.checksum,
                "changes": result.changes,
                "encrypted": result.encrypted,
            }
        )
        return
    if result.sent_bytes:
        emit_table(["sender", "bytes"], [[name, format_bytes(sent)] for name, sent in result.sent_bytes.items()])
    note(
        f"{format_bytes(result.bytes)}{', encrypted,' if result.encrypted else ''} in {result.elapsed_s:.3f} s, "
        f"{format_bytes(result.cached_bytes)} of them from {question.names[1]}'s own cache"
    )
