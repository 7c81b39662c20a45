"""Other projects' definitions in a real API server, and what it says of objects: for `test_crds_in_cluster.py`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import yaml
from tests.export.schemas import CRDS
from tests.shell import until

NAMESPACE = "default"


class Cluster:
    """A connection to a cluster that has the definitions of `data/crds`."""

    def __init__(self) -> None:
        from kubernetes import client

        from gavotte.campaign.drivers import cluster

        connection = cluster.connected("")
        self.definitions: Any = client.ApiextensionsV1Api(connection)
        self.objects: Any = client.CustomObjectsApi(connection)
        self.crds = [yaml.safe_load(path.read_text()) for path in sorted(CRDS.glob("*.yaml"))]

    def create(self, document: dict[str, Any]) -> dict[str, Any]:
        """Create an object that is deleted again, and return it as the API server has kept it.

        Unknown fields are refused, as by `kubectl`.
        """
        self._call("create", document, document, field_validation="Strict")
        try:
            kept: dict[str, Any] = self._call("get", document, document["metadata"]["name"])
            return kept
        finally:
            self._call("delete", document, document["metadata"]["name"])

    def refusal(self, document: dict[str, Any]) -> str:
        """Return the message by which the API server refuses an object."""
        from kubernetes.client.exceptions import ApiException

        try:
            self.create(document)
        except ApiException as error:
            assert error.status in {400, 422}, error
            message: str = json.loads(error.body or "")["message"]
            return message
        raise AssertionError(f"{document['kind']} was accepted")

    def _call(self, verb: str, document: dict[str, Any], *arguments: Any, **options: Any) -> Any:
        group, version = document["apiVersion"].split("/")
        names = next(
            crd["spec"]["names"] | {"scope": crd["spec"]["scope"]}
            for crd in self.crds
            if (crd["spec"]["group"], crd["spec"]["names"]["kind"]) == (group, document["kind"])
        )
        if names["scope"] == "Cluster":
            where, method = [names["plural"]], f"{verb}_cluster_custom_object"
        else:
            where, method = [NAMESPACE, names["plural"]], f"{verb}_namespaced_custom_object"
        return getattr(self.objects, method)(group, version, *where, *arguments, **options)


@contextmanager
def defined() -> Iterator[Cluster]:
    """Define the objects of Kueue, Volcano and Diktyo in the cluster of the kubeconfig, and remove them at the end."""
    from kubernetes.client.exceptions import ApiException

    cluster = Cluster()

    def established() -> bool:
        states = [
            {state.type: state.status for state in each.status.conditions or []}
            for each in cluster.definitions.list_custom_resource_definition().items
        ]
        return len(states) == len(cluster.crds) and all(state.get("Established") == "True" for state in states)

    try:
        for crd in cluster.crds:
            cluster.definitions.create_custom_resource_definition(crd)
        until(established)
        yield cluster
    finally:
        for crd in cluster.crds:
            with suppress(ApiException):  # one that could not be made
                cluster.definitions.delete_custom_resource_definition(crd["metadata"]["name"])
