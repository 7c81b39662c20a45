"""Runs Indexed Jobs of a training in a Kubernetes cluster: WORKERS FOLDER FILE, and `WAY: JOB` in each line of stdin.

`default` is the default scheduler, `group` the same for pods of a PodGroup, whose manifest is `FOLDER/group.yaml`, and
`extended` the scheduler named gavotte. Prints the seconds until the API server calls the Job complete. Writes the nodes
of its pods to the file, in the order of their indices. `KUBECONFIG` names the cluster.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import yaml
from kubernetes import client, config

NAMESPACE, LIMIT_S, LOOK_S = "default", 600.0, 0.1
GROUPS = ("scheduling.k8s.io", "v1beta1", NAMESPACE, "podgroups")
CPU = "500m"
PORT = 29500
IMAGE = "gavotte.test/agent:1"
STEPS, WIDTH = 40, 700
"""Steps of the training, and the width of its layers: each step adds up 2.2 MB of gradients."""
MEET = """
if [ "$JOB_COMPLETION_INDEX" = 0 ]; then echo "$HOST" > "$0"; fi
until [ -s "$0" ]; do sleep 0.1; done
export RANK="$JOB_COMPLETION_INDEX" MASTER_ADDR=$(cat "$0")
exec "$@"
"""
"""Rank 0 tells the others its address by a file, as they all see the same folder."""


def job(name: str, way: str, workers: int, folder: Path) -> dict[str, Any]:
    """Return a Job whose pods are ranks of one training, in the networks of their nodes.

    The pods' image has a shell alone: Python and PyTorch are the machine's.
    """
    meeting = folder / name
    program = ["/usr/bin/python3", str(Path(__file__).parents[1] / "training" / "train.py"), str(STEPS), str(WIDTH)]
    variables = {"WORLD_SIZE": workers, "MASTER_PORT": PORT, "OMP_NUM_THREADS": 1, "GLOO_SOCKET_IFNAME": "eth0"}
    host = {"name": "HOST", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}}
    paths = {"/usr": "/usr", "/lib": "/usr/lib", "/lib64": "/usr/lib64", "/etc": "/etc", str(folder): str(folder)}
    source = str(Path(program[1]).parent)
    paths[source] = source
    container = {
        "name": "rank",
        "image": IMAGE,
        "imagePullPolicy": "Never",
        "command": ["/bin/sh", "-c", MEET, str(meeting), *program],
        "env": [*({"name": key, "value": str(value)} for key, value in variables.items()), host],
        "resources": {"requests": {"cpu": CPU}, "limits": {"cpu": CPU}},
        # A port of the node: no two pods of the job can be on one node.
        "ports": [{"containerPort": PORT}],
        "volumeMounts": [{"name": f"v{number}", "mountPath": path} for number, path in enumerate(paths)],
    }
    pod = {
        "schedulerName": "gavotte" if way == "extended" else "default-scheduler",
        **({"schedulingGroup": {"podGroupName": name}} if way == "group" else {}),
        "hostNetwork": True,
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 0,
        "containers": [container],
        "volumes": [{"name": f"v{number}", "hostPath": {"path": path}} for number, path in enumerate(paths.values())],
    }
    spec = {"completions": workers, "parallelism": workers, "completionMode": "Indexed", "backoffLimit": 0}
    return {"metadata": {"name": name}, "spec": {**spec, "template": {"spec": pod}}}


def run(way: str, workers: int, folder: Path, nodes: Path) -> float:
    """Run one Job and remove it. Return its seconds."""
    jobs: Any = client.BatchV1Api()
    core: Any = client.CoreV1Api()
    objects: Any = client.CustomObjectsApi()
    name = f"training-{time.monotonic_ns()}"
    begin_s = time.monotonic()
    if way == "group":
        group = yaml.safe_load((folder / "group.yaml").read_text())
        objects.create_namespaced_custom_object(*GROUPS, group | {"metadata": {"name": name}})
    jobs.create_namespaced_job(NAMESPACE, job(name, way, workers, folder))
    pods = f"batch.kubernetes.io/job-name={name}"
    try:
        while True:
            status = jobs.read_namespaced_job_status(name, NAMESPACE).status
            ended = {each.type for each in status.conditions or () if each.status == "True"}
            took_s = time.monotonic() - begin_s
            if "Complete" in ended:
                break
            if "Failed" in ended or took_s > LIMIT_S:
                raise SystemExit(f"{name}: {status}\n{explained(core, pods)}")
            time.sleep(LOOK_S)
        placed = {
            int(pod.metadata.labels["batch.kubernetes.io/job-completion-index"]): pod.spec.node_name
            for pod in core.list_namespaced_pod(NAMESPACE, label_selector=pods).items
        }
        nodes.write_text(" ".join(placed[index] for index in range(workers)))
        return took_s
    finally:
        jobs.delete_namespaced_job(name, NAMESPACE, propagation_policy="Foreground", grace_period_seconds=0)
        end_s = time.monotonic() + LIMIT_S
        while core.list_namespaced_pod(NAMESPACE, label_selector=pods).items and time.monotonic() < end_s:
            time.sleep(LOOK_S)
        if way == "group":
            objects.delete_namespaced_custom_object(*GROUPS, name)


def explained(core: Any, pods: str) -> str:
    """Return the last lines of each pod, and the cluster's warnings."""
    lines = []
    for pod in core.list_namespaced_pod(NAMESPACE, label_selector=pods).items:
        try:
            lines.append(core.read_namespaced_pod_log(pod.metadata.name, NAMESPACE, tail_lines=5))
        except client.ApiException as error:
            lines.append(f"{pod.metadata.name}: {error.reason}; {pod.status.container_statuses}")
    warnings = core.list_namespaced_event(NAMESPACE, field_selector="type=Warning").items
    return "\n".join([*lines, *(str(each.message) for each in warnings[-5:])])


def main() -> None:
    workers, folder, nodes = int(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])
    config.load_kube_config()  # type: ignore[no-untyped-call]
    for line in sys.stdin:
        way = line.partition(":")[0]
        sys.stdout.write(f"seconds {run(way, workers, folder, nodes):.3f}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
