"""Check objects of Kubernetes by the schema of their CustomResourceDefinition, as an API server does."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

DATA = Path(__file__).parent / "data"

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
}
IGNORED = {"x-kubernetes-list-type", "x-kubernetes-map-type", "required", "properties"}


def faults(definition: str, document: Any) -> list[str]:
    """Return what an API server with a definition of `data/` would refuse in an object."""
    crd = yaml.safe_load((DATA / f"{definition}.crd.yaml").read_text())["spec"]
    (version,) = crd["versions"]
    kind = (f"{crd['group']}/{version['name']}", crd["names"]["kind"])
    wrong = [] if (document["apiVersion"], document["kind"]) == kind else [f"is no {kind}"]
    return wrong + list(_faults(version["schema"]["openAPIV3Schema"], document, ""))


def _faults(schema: dict[str, Any], value: Any, at: str) -> list[str]:
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
