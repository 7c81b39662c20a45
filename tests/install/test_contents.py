"""The bill of materials and the licences of a wheel cover what is linked into it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import tomli

ROOT = Path(__file__).parents[2]
TARGET = "x86_64-unknown-linux-gnu"

pytestmark = pytest.mark.slow


def contents(what: str) -> str:
    env = os.environ | {"SOURCE_DATE_EPOCH": "1700000000"}
    line = [sys.executable, str(ROOT / "tools" / "contents"), what, TARGET]
    return subprocess.run(line, env=env, capture_output=True, text=True, check=True).stdout


def test_the_bill_names_each_linked_crate_by_version_hash_and_licence() -> None:
    text = contents("sbom")
    bill = json.loads(text)
    assert (bill["bomFormat"], bill["metadata"]["timestamp"]) == ("CycloneDX", "2023-11-14T22:13:20Z")
    crates = {each["name"]: each for each in bill["components"] if each["purl"].startswith("pkg:cargo/")}
    # One of the agent, one of the module, and one that only builds or tests either.
    assert {"tonic", "pyo3", "gavotte-shaper", "gavotte-assign"} <= crates.keys()
    assert not {"proptest", "protox", "tonic-prost-build", "serde_derive"} & crates.keys()
    lock = {(each["name"], each["version"]): each for each in tomli.loads((ROOT / "Cargo.lock").read_text())["package"]}
    for name, crate in crates.items():
        assert crate["licenses"][0]["expression"] != "NOASSERTION"
        if not name.startswith("gavotte-"):
            assert crate["hashes"][0]["content"] == lock[name, crate["version"]]["checksum"]
    assert any(each["name"] == "glibc" for each in bill["components"])
    references = [each["bom-ref"] for each in bill["components"]]
    assert len(set(references)) == len(references)
    assert set(bill["dependencies"][0]["dependsOn"]) == set(references)
    assert contents("sbom") == text


def test_each_linked_crate_has_its_licence() -> None:
    text = contents("licences")
    crates = [each for each in json.loads(contents("sbom"))["components"] if each["purl"].startswith("pkg:cargo/")]
    for crate in crates:
        if not crate["name"].startswith("gavotte-"):
            assert f"\n{crate['name']} {crate['version']}: " in text
    assert "Permission is hereby granted, free of charge" in text
    assert "GNU LESSER GENERAL PUBLIC LICENSE" in text
