"""How Kubernetes' scheduler is told to ask `gavotte serve`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

PLUGIN = Path(__file__).parents[2] / "packaging" / "kubernetes" / "scheduler"
"""The sources of our scheduler."""


def configuration(kubeconfig: str, base: str) -> dict[str, Any]:
    """Return the configuration of a scheduler named `gavotte`.

    Args:
        kubeconfig: file by which it reaches the API server.
        base: address of `gavotte serve`.
    """
    extender = {
        "urlPrefix": f"{base}/scheduler",
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "weight": 100,
        "nodeCacheCapable": True,
    }
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": kubeconfig},
        "profiles": [{"schedulerName": "gavotte"}],
        "extenders": [extender],
    }


def plugin_configuration(kubeconfig: str, base: str) -> dict[str, Any]:
    """Return the example configuration of our scheduler, which is named `gavotte`, with these addresses."""
    config: dict[str, Any] = yaml.safe_load((PLUGIN / "config.yaml").read_text())
    config["clientConnection"]["kubeconfig"] = kubeconfig
    config["profiles"][0]["pluginConfig"][0]["args"]["url"] = base
    return config
