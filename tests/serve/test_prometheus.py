"""Metrics as Prometheus reads them: names, alerts and dashboard agree, and a real server scrapes them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.serve.served import racks, serving
from tests.serve.stored import filled

pytestmark = pytest.mark.slow
PACKAGING = Path(__file__).parents[2] / "packaging"
NAME = re.compile(r"\bgavotte_\w+")
NEEDS_PROMETHEUS = pytest.mark.skipif(shutil.which("promtool") is None, reason="needs prometheus")


def served_text(folder: Path) -> str:
    filled(folder / "s.sqlite3", snapshots=2)
    with serving(folder, "--store", "s.sqlite3", network=racks()) as server:
        return server.ask("/metrics").text


def expressions() -> str:
    """Return what the alerts and the dashboard ask for."""
    rules: Any = yaml.safe_load((PACKAGING / "prometheus" / "alerts.yaml").read_text())["groups"][0]["rules"]
    panels = json.loads((PACKAGING / "grafana" / "gavotte.json").read_text())["panels"]
    return " ".join([*(rule["expr"] for rule in rules), *(one["expr"] for panel in panels for one in panel["targets"])])


def test_alerts_and_dashboard_ask_for_what_is_served(tmp_path: Path) -> None:
    text = served_text(tmp_path)
    served = set(NAME.findall(text))
    assert set(NAME.findall(expressions())) <= served
    assert "melt" not in text  # any user of the machine may read metrics, and commands may have secrets
    for line in text.splitlines():
        if line.startswith("# TYPE"):
            name, kind = line.split()[2:]
            assert name.endswith("_total") == (kind == "counter")


def test_grafana_knows_every_field_of_the_dashboard() -> None:
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.models.dashboard import Dashboard

    # Grafana's own types drop what they do not know.
    own = json.loads((PACKAGING / "grafana" / "gavotte.json").read_text())
    known = json.loads(JSONEncoder(sort_keys=True).encode(Dashboard.from_json(own)))
    assert lost(own, known) == []
    own["panels"][0]["targets"][0]["exprs"] = "typo"
    assert lost(own, known) == ["/panels[0]/targets[0]/exprs"]


def lost(own: Any, known: Any, path: str = "") -> list[str]:
    """Return the paths of values that another document does not have."""
    if isinstance(own, dict):
        return [each for key, value in own.items() for each in lost(value, (known or {}).get(key), f"{path}/{key}")]
    if isinstance(own, list) and len(own) == len(known or []):
        return [each for at, value in enumerate(own) for each in lost(value, known[at], f"{path}[{at}]")]
    return [] if own == known else [path]


@NEEDS_PROMETHEUS
def test_promtool_accepts_metrics_and_alerts(tmp_path: Path) -> None:
    checked = subprocess.run(
        ["promtool", "check", "metrics"], input=served_text(tmp_path), capture_output=True, text=True, check=False
    )
    assert (checked.returncode, checked.stderr) == (0, "")
    for words in (["check", "rules", "alerts.yaml"], ["test", "rules", "alerts_test.yaml"]):
        line = ["promtool", *words]
        done = subprocess.run(line, cwd=PACKAGING / "prometheus", capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@NEEDS_PROMETHEUS
@pytest.mark.rare
def test_a_real_server_scrapes_them(tmp_path: Path) -> None:
    filled(tmp_path / "s.sqlite3", snapshots=2)
    with serving(tmp_path, "--store", "s.sqlite3", network=racks()) as server:
        target = server.base.removeprefix("http://")
        scrape = {"job_name": "gavotte", "scrape_interval": "1s", "static_configs": [{"targets": [target]}]}
        config = {"scrape_configs": [scrape], "rule_files": [str(PACKAGING / "prometheus" / "alerts.yaml")]}
        (tmp_path / "prometheus.yaml").write_text(yaml.safe_dump(config))
        line = ["prometheus", "--config.file=prometheus.yaml", "--storage.tsdb.path=data"]
        port = 19090
        with subprocess.Popen(
            [*line, f"--web.listen-address=127.0.0.1:{port}"],
            cwd=tmp_path,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process:
            try:
                address = f"http://127.0.0.1:{port}/api/v1/query?query=gavotte_job_wall_seconds"
                deadline_s = time.monotonic() + 60
                rows: list[Any] = []
                while not rows and time.monotonic() < deadline_s:
                    time.sleep(0.5)
                    try:
                        with urllib.request.urlopen(address, timeout=5) as answer:
                            rows = json.load(answer)["data"]["result"]
                    except OSError:
                        continue
                assert rows[0]["metric"]["job"] == "gavotte"
                assert rows[0]["metric"]["job_key"] == "0a1b"
                assert float(rows[0]["value"][1]) == 4.45
            finally:
                process.terminate()
                process.wait(20)
