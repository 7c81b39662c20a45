"""How Kubernetes' scheduler is told to ask `gavotte serve`."""

from __future__ import annotations

from typing import Any


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
