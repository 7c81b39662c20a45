"""Clients of the Kubernetes clusters that a kubeconfig names, and their errors in one line."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from gavotte.errors import GavotteError
from gavotte.extras import needs

CALL_LIMIT_S = 30.0
"""Longest wait for an answer of the API server, in seconds."""

DAMAGED = (ValueError, TypeError, AttributeError, KeyError, OSError)
"""What the client raises when an answer breaks off, or is not what was asked for."""

DEFAULT_FILE = "~/.kube/config"
"""The kubeconfig where the variable `KUBECONFIG` names none."""

_OBJECT = re.compile(r"<[^<>]* at 0x[0-9a-f]+>: |^\w+\([^()]*\): ")
"""How urllib3 begins its messages: with the connection as Python prints it."""


def one_line(*parts: str | None) -> str:
    """Return what several texts say on one line."""
    return " ".join(": ".join(part for part in parts if part).split())[:300]


@contextmanager
def api_errors(what: str, right: str = "") -> Iterator[None]:
    """Replace errors of the Kubernetes client within a `with` block by a `GavotteError` of one line.

    Args:
        what: what Kubernetes was asked to do.
        right: the right that this needs, such as `nodes: list`; empty = several.
    """
    from kubernetes.client import ApiException
    from kubernetes.config import ConfigException
    from urllib3.exceptions import HTTPError

    try:
        yield
    except ApiException as error:
        text = error.reason or f"status {error.status}"
        with suppress(ValueError, TypeError, AttributeError):
            text = json.loads(error.body or "")["message"]
        role = f"ask for a role with the right to `{right}`" if right else "ask for a role that may do this"
        hint = {401: "log in again", 403: role}.get(error.status, "see the cluster's events")
        raise GavotteError(f"Kubernetes did not {what}: {one_line(text)}", hint=hint) from None
    except HTTPError as error:
        raise GavotteError(
            f"Kubernetes did not {what}: {_of_connection(error)}", hint="is the cluster of your kubeconfig up?"
        ) from None
    except ConfigException as error:
        raise GavotteError(one_line(str(error)), hint="set KUBECONFIG, or name another context") from None


def kubeconfig_files() -> list[str]:
    """Return the paths at which a kubeconfig may be, as kubectl reads them."""
    paths = [path for path in os.environ.get("KUBECONFIG", "").split(os.pathsep) if path] or [DEFAULT_FILE]
    return [str(Path(path).expanduser()) for path in paths]


def connected(context: str, *, retries: int | None = None) -> Any:
    """Return a client of the cluster that the kubeconfig names, or of the cluster in which this process runs.

    Args:
        context: a context of the kubeconfig; empty = its current context.
        retries: how often a call that reached no server is repeated; None = as the client does by default.

    Raises:
        UnsupportedError: when the client library is not installed.
        GavotteError: when there is no such cluster.
    """
    with needs("kubernetes"):
        import urllib3
        from kubernetes import client, config
    with api_errors("let you in"):
        settings = client.Configuration()
        files = kubeconfig_files()
        # Inside a pod, a token replaces the kubeconfig. The client's own choice fails with a context.
        if "KUBERNETES_SERVICE_HOST" in os.environ and not any(map(os.path.exists, files)):
            config.load_incluster_config(client_configuration=settings)  # type: ignore[no-untyped-call]
        else:
            _load(files, context, settings)
        if not settings.verify_ssl:
            # The kubeconfig turns verification off; a warning for each request would hide all other output.
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        settings.retries = retries
        return client.ApiClient(settings)


def _load(files: list[str], context: str, settings: Any) -> None:
    """Read the kubeconfig.

    Raises:
        ConfigException: when it is missing or damaged, or has no such context.
    """
    import yaml
    from kubernetes import config
    from kubernetes.config.kube_config import KubeConfigMerger

    joined = os.pathsep.join(files)
    if not any(map(os.path.exists, files)):
        raise config.ConfigException(f"no kubeconfig is at {joined}")
    try:
        merged = KubeConfigMerger(joined).config  # type: ignore[no-untyped-call]
        names = [each.value["name"] for each in merged["contexts"]]
        if context and context not in names:
            has = f"its contexts are {', '.join(sorted(names)[:10])}" if names else "it has no contexts"
            raise config.ConfigException(f"{joined}: has no context `{context}`; {has}")
        config.load_kube_config(joined, context or None, client_configuration=settings)  # type: ignore[no-untyped-call]
    except OSError as error:
        raise config.ConfigException(f"{error.filename or joined}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeError, TypeError, AttributeError, KeyError, ValueError):
        raise config.ConfigException(f"{joined}: is not a kubeconfig") from None


def _of_connection(error: Exception) -> str:
    """Return why no answer came, without the names of Python's objects."""
    reason = getattr(error, "reason", None)
    return one_line(_OBJECT.sub("", str(reason if isinstance(reason, Exception) else error)))
