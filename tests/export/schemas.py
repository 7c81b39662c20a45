"""Check objects of Kubernetes by the schema of their CustomResourceDefinition, where no API server runs.

`test_crds_in_cluster.py` asks a real API server about the same definitions.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

CRDS = Path(__file__).parent / "data" / "crds"

TYPES: dict[str, Any] = {"object": dict, "array": list, "string": str, "integer": int}

HOSTNAME = "kubernetes.io/hostname"
SELECTORS = ("exactMatch", "regexMatch", "labelMatch")

RULES: dict[str, Callable[[Any], bool]] = {
    "must be unique": lambda levels: all(levels.count(level) == 1 for level in levels),
    "the kubernetes.io/hostname label can only be used at the lowest level of topology": lambda levels: (
        HOSTNAME not in [level["nodeLabel"] for level in levels[:-1]]
    ),
    "levels are mutable only when kubernetes.io/hostname is the lowest level both before and after the change": (
        lambda levels: True  # about changes of an object alone
    ),
    "Either ExactMatch or RegexMatch or LabelMatch must be specified": lambda selector: any(
        key in selector for key in SELECTORS
    ),
    "Only one of ExactMatch, RegexMatch, or LabelMatch can be specified": lambda selector: (
        sum(key in selector for key in SELECTORS) <= 1
    ),
}
"""The schemas' rules in CEL by their messages, as Python."""

SIZES: dict[str, Callable[[Any, int], bool]] = {
    "minLength": lambda value, limit: len(value) >= limit,
    "maxLength": lambda value, limit: len(value) <= limit,
    "minItems": lambda value, limit: len(value) >= limit,
    "maxItems": lambda value, limit: len(value) <= limit,
    "minimum": lambda value, limit: value >= limit,
    "maximum": lambda value, limit: value <= limit,
}
IGNORED = {"x-kubernetes-list-type", "x-kubernetes-map-type", "required", "properties", "description", "format"}


def faults(definition: str, document: Any) -> list[str]:
    """Return what an API server with a definition of `data/crds` would refuse in an object."""
    crd = yaml.safe_load((CRDS / f"{definition}.yaml").read_text())["spec"]
    schemas = {f"{crd['group']}/{version['name']}": version["schema"]["openAPIV3Schema"] for version in crd["versions"]}
    kind = crd["names"]["kind"]
    if document["apiVersion"] not in schemas or document["kind"] != kind:
        return [f"is no {kind} of {', '.join(schemas)}"]
    return _faults(schemas[document["apiVersion"]], document, "")


def _faults(schema: dict[str, Any], value: Any, at: str) -> list[str]:
    if schema.get("x-kubernetes-int-or-string"):
        return [] if re.search(schema["pattern"], str(value)) else [f"{at}: does not match {schema['pattern']}"]
    if not isinstance(value, TYPES[schema["type"]]):
        return [f"{at}: is no {schema['type']}"]
    wrong: list[str] = []
    for key, rule in schema.items():
        if key in SIZES and not SIZES[key](value, rule):
            wrong.append(f"{at}: {key} is {rule}")
        elif key == "pattern" and not re.search(rule, value):
            wrong.append(f"{at}: does not match {rule}")
        elif key == "enum" and value not in rule:
            wrong.append(f"{at}: is none of {rule}")
        elif key == "items":
            wrong += [each for number, item in enumerate(value) for each in _faults(rule, item, f"{at}[{number}]")]
        elif key == "additionalProperties":
            wrong += [each for name, item in value.items() for each in _faults(rule, item, f"{at}.{name}")]
        elif key == "x-kubernetes-validations":
            wrong += [f"{at}: {each['message']}" for each in rule if not RULES[each["message"]](value)]
        else:
            assert key in {*SIZES, *IGNORED, "type", "pattern", "enum"}, f"the schema has {key}"
    if schema["type"] == "object" and "properties" in schema:
        wrong += [f"{at}: lacks {name}" for name in schema.get("required", []) if name not in value]
        for name, item in value.items():
            if name in schema["properties"]:
                wrong += _faults(schema["properties"][name], item, f"{at}.{name}")
            else:
                wrong.append(f"{at}: has no field {name}")
    return wrong
