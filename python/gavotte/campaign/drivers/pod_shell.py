"""Run a program in a pod, as `kubectl exec` does.

Usage: `python -m gavotte.campaign.drivers.pod_shell CONTEXT NAMESPACE POD PROGRAM...`
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from gavotte.agents.kubeconfig import api_errors, connected
from gavotte.campaign.drivers.cluster import CONTAINER

UPDATE_S = 1.0


def executed(settings: Any, namespace: str, pod: str, argv: Sequence[str]) -> Any:
    """Start a program in the agent's container of a pod, and return the stream of its output."""
    from kubernetes import client
    from kubernetes.stream import stream

    core = client.CoreV1Api(client.ApiClient(settings))
    return stream(
        core.connect_get_namespaced_pod_exec,
        pod,
        namespace,
        container=CONTAINER,
        command=list(argv),
        stdin=False,
        stdout=True,
        stderr=True,
        tty=False,
        _preload_content=False,
    )


def main() -> int:
    """Run the program, copy its output and errors to this process's, and return its exit status."""
    context, namespace, pod, *argv = sys.argv[1:]
    api = connected(context)
    with api_errors(f"run {argv[0]}"):
        running = executed(api.configuration, namespace, pod, argv)
    while running.is_open():
        running.update(timeout=UPDATE_S)
        for peek, read, out in (
            (running.peek_stdout, running.read_stdout, sys.stdout),
            (running.peek_stderr, running.read_stderr, sys.stderr),
        ):
            if peek():
                out.write(read())
                out.flush()
    return int(running.returncode or 0)


if __name__ == "__main__":
    sys.exit(main())
