"""Describe the JSON interface in OpenAPI's terms, from the types of its answers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from gavotte import _core

if TYPE_CHECKING:
    from gavotte.serve.pages.catalogue import Catalogue

VERSION = "3.1.0"
REFERENCE = "#/components/schemas/{model}"


@dataclass(frozen=True)
class Operation:
    """One GET request of the interface.

    Attributes:
        path: its path, with names in braces.
        summary: description of its answer.
        answer: type of the answer.
        read: makes the answer from the catalogue, the parts of the path and the query.
        query: names of required parameters.
    """

    path: str
    summary: str
    answer: Any
    read: Callable[[Catalogue, Mapping[str, str], Mapping[str, str]], object]
    query: Sequence[str] = ()


def openapi(operations: Sequence[Operation]) -> dict[str, Any]:
    """Return the OpenAPI document of these operations."""
    keys = [(operation.path, "serialization", TypeAdapter(operation.answer)) for operation in operations]
    schemas, definitions = TypeAdapter.json_schemas(keys, ref_template=REFERENCE)  # type: ignore[arg-type]
    return {
        "openapi": VERSION,
        "info": {
            "title": "Gavotte",
            "version": _core.version(),
            "description": "Networks, jobs and transfers of a store. Rates are in bit/s, times are Unix.",
        },
        "paths": {
            operation.path: {"get": _described(operation, schemas[operation.path, "serialization"])}
            for operation in operations
        },
        "components": {
            "schemas": definitions.get("$defs", {}),
            "securitySchemes": {
                "token": {"type": "apiKey", "in": "query", "name": "token"},
                "password": {"type": "http", "scheme": "basic"},
            },
        },
        "security": [{"token": []}, {"password": []}],
    }


def _described(operation: Operation, schema: object) -> dict[str, Any]:
    places = [(name, "path") for name in re.findall(r"{(\w+)}", operation.path)]
    places += [(name, "query") for name in operation.query]
    error = {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]}
    return {
        "summary": operation.summary,
        "operationId": re.sub(r"\W+", "_", operation.path.removeprefix("/api/")).strip("_"),
        "parameters": [
            {"name": name, "in": place, "required": True, "schema": {"type": "string"}} for name, place in places
        ],
        "responses": {
            "200": {"description": "found", "content": {"application/json": {"schema": schema}}},
            "404": {"description": "not here", "content": {"application/json": {"schema": error}}},
        },
    }
