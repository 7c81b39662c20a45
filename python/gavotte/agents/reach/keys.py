"""The controller's keys for agents behind TLS: their paths, and the gRPC credentials made from them."""

from __future__ import annotations

import os
from pathlib import Path

from gavotte.agents.quiet import grpc
from gavotte.errors import GavotteError

KEYS_VARIABLE = "GAVOTTE_KEYS"
"""Environment variable that names the folder of `gavotte hosts keys`."""

AUTHORITY = "ca.pem"
CONTROLLER_CERTIFICATE = "controller.pem"
CONTROLLER_KEY = "controller.key"


def keys_folder(named: str | None) -> Path:
    """Find the folder of keys: the inventory's, else `$GAVOTTE_KEYS`.

    Args:
        named: the inventory's `keys`.

    Raises:
        GavotteError: when neither is named.
    """
    folder = named or os.environ.get(KEYS_VARIABLE)
    if not folder:
        raise GavotteError(
            "tls:// agents need keys", hint=f'write `keys = "FOLDER"` into the inventory, or set {KEYS_VARIABLE}'
        )
    return Path(folder)


def credentials(folder: Path) -> grpc.ChannelCredentials:
    """Read the controller's keys.

    Raises:
        GavotteError: naming the file that is missing, unreadable, or open to others.
    """
    parts = {}
    for name in (AUTHORITY, CONTROLLER_CERTIFICATE, CONTROLLER_KEY):
        path = folder / name
        try:
            parts[name] = path.read_bytes()
            mode = path.stat().st_mode
        except OSError as error:
            raise GavotteError(
                f"{path}: {error.strerror}", hint="create keys with `gavotte hosts keys`, or name the right folder"
            ) from None
        if name == CONTROLLER_KEY and mode & 0o077:
            raise GavotteError(f"other users can read {path}", hint=f"run: chmod 600 {path}")
    return grpc.ssl_channel_credentials(parts[AUTHORITY], parts[CONTROLLER_KEY], parts[CONTROLLER_CERTIFICATE])
