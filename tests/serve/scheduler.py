"""How Kubernetes' scheduler is told to ask `gavotte serve`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from tests.guides import block

PLUGIN = Path(__file__).parents[2] / "packaging" / "kubernetes" / "scheduler"
"""The sources of our scheduler."""


def configuration(kubeconfig: str, base: str) -> dict[str, Any]:
    """Return the guide's configuration of a scheduler named `gavotte`.

    Args:
        kubeconfig: file by which it reaches the API server.
        base: address of `gavotte serve`.
    """
    settings: dict[str, Any] = yaml.safe_load(
        block("schedulers/extender", "apiVersion: kubescheduler.config.k8s.io/v1")
    )
    (extender,) = settings["extenders"]
    extender["urlPrefix"] = f"{base}/scheduler"
    own = {"leaderElection": {"leaderElect": False}, "clientConnection": {"kubeconfig": kubeconfig}}
    return settings | own


def plugin_configuration(kubeconfig: str, base: str) -> dict[str, Any]:
    """Return the example configuration of our scheduler, which is named `gavotte`, with these addresses."""
    config: dict[str, Any] = yaml.safe_load((PLUGIN / "config.yaml").read_text())
    config["clientConnection"]["kubeconfig"] = kubeconfig
    config["profiles"][0]["pluginConfig"][0]["args"]["url"] = base
    return config
