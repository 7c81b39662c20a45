"""Describe the JSON interface in OpenAPI's terms, from the types of its answers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from gavotte import _core

VERSION = "3.1.0"
REFERENCE = "#/components/schemas/{model}"


@dataclass(frozen=True)
class Operation:
    """One request of the interface.

    Attributes:
        path: its path, with names in braces.
        summary: description of its answer.
        answer: type of the answer.
        read: makes the answer from what is served, the parts of the path and the query; not used for `post`.
        query: names of required parameters.
        method: `get`, or `post` if it changes something.
        body: type of its JSON body; None = it has none.
    """

    path: str
    summary: str
    answer: Any
    read: Callable[[Any, Mapping[str, str], Mapping[str, str]], object] = lambda *_: None
    query: Sequence[str] = ()
    method: str = "get"
    body: Any = None

    @property
    def changes(self) -> bool:
        """Whether it changes something."""
        return self.method != "get"


def openapi(operations: Sequence[Operation]) -> dict[str, Any]:
    """Return the OpenAPI document of these operations."""
    keys = [(_name(each), "serialization", TypeAdapter(each.answer)) for each in operations]
    keys += [(_name(each), "validation", TypeAdapter(each.body)) for each in operations if each.body is not None]
    schemas, definitions = TypeAdapter.json_schemas(keys, ref_template=REFERENCE)  # type: ignore[arg-type]
    paths: dict[str, dict[str, Any]] = {}
    for each in operations:
        schema = schemas[_name(each), "serialization"]
        body = None if each.body is None else schemas[_name(each), "validation"]
        paths.setdefault(each.path, {})[each.method] = _described(each, schema, body)
    return {
        "openapi": VERSION,
        "info": {
            "title": "Gavotte",
            "version": _core.version(),
            "description": "Networks, jobs and transfers of a store. Rates are in bit/s, times are Unix.",
        },
        "paths": paths,
        "components": {
            "schemas": definitions.get("$defs", {}),
            "securitySchemes": {
                "token": {"type": "apiKey", "in": "query", "name": "token"},
                "password": {"type": "http", "scheme": "basic"},
            },
        },
        "security": [{"token": []}, {"password": []}],
    }


def _name(operation: Operation) -> str:
    """Return the name by which clients call an operation."""
    stem = re.sub(r"\W+", "_", operation.path.removeprefix("/api/")).strip("_")
    return f"{operation.method}_{stem}" if operation.changes else stem


def _described(operation: Operation, schema: object, body: object) -> dict[str, Any]:
    places = [(name, "path") for name in re.findall(r"{(\w+)}", operation.path)]
    places += [(name, "query") for name in operation.query]
    error = {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]}
    failed = {"content": {"application/json": {"schema": error}}}
    refused = {"404": {"description": "not here", **failed}}
    if operation.changes:
        refused = {"409": {"description": "cannot be done now", **failed}}
    given = {"required": True, "content": {"application/json": {"schema": body}}}
    return {
        "summary": operation.summary,
        "operationId": _name(operation),
        "parameters": [
            {"name": name, "in": place, "required": True, "schema": {"type": "string"}} for name, place in places
        ],
        **({} if body is None else {"requestBody": given}),
        "responses": {
            "200": {"description": "answer", "content": {"application/json": {"schema": schema}}},
            **refused,
        },
    }
