"""The schedules that the guide shows run for real: by a cron daemon, and as systemd's own tools read the units."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.campaign.test_sharing_results import check_bulk, inbox
from tests.shell import GAVOTTE, until

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "campaign.md"
SHOWN = GUIDE.read_text("utf-8")
CRON = re.search(r"^    (\*/30 .+)$", SHOWN, re.MULTILINE)
UNITS = re.search(r"^    \[Service\]\n(?:    .*\n|\n)+", SHOWN, re.MULTILINE)
STUDY = """format = "gavotte/campaign/1"
name = "paths"
seconds = 0.2
repetitions = 1
[driver]
kind = "lab"
topology = "cloud.topology.toml"
[[scenario]]
name = "near"
kind = "pair"
source = ["a"]
target = ["b"]
"""
CLOUD = 'format = "gavotte/topology/1"\nswitch = [{ name = "core" }]\n' + "".join(
    f'[[host]]\nname = "{name}"\nswitch = "core"\nrate = "50mbit"\n' for name in "ab"
)
needs_cron = pytest.mark.skipif(
    shutil.which("cron", path="/usr/sbin:/usr/bin") is None or os.geteuid() != 0, reason="needs cron, and root"
)
needs_systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")


def own(text: str, folder: Path, archive: str) -> str:
    """Return an example with this checkout's program and folder, and an archive that answers."""
    text = text.replace("/opt/gavotte/bin/gavotte", str(GAVOTTE)).replace("/srv/paths", str(folder))
    return text.replace("http://archive:9200", archive)


def units(folder: Path, archive: str) -> dict[str, str]:
    """Return the sections of the service, and of the timer, as unit files."""
    assert UNITS is not None
    text = own(re.sub(r"^    ", "", UNITS[0], flags=re.MULTILINE), folder, archive)
    service, timer = text.split("[Timer]")
    return {"gavotte-paths.service": service, "gavotte-paths.timer": f"[Timer]{timer}"}


@pytest.fixture
def study(tmp_path: Path) -> Path:
    (tmp_path / "study.campaign.toml").write_text(STUDY)
    (tmp_path / "cloud.topology.toml").write_text(CLOUD)
    return tmp_path


def check_round(folder: Path, posts: list[tuple[str, dict[str, str], bytes]]) -> None:
    """Check that one round has left its file, and that the archive has its sample."""
    (kept,) = folder.glob("study-2*Z.jsonl")
    (line,) = kept.read_text().splitlines()
    assert json.loads(line)["sample"].startswith("near/")
    assert [check_bulk(headers, body, {}) for _, headers, body in posts] == [1]


@needs_systemd
def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    for name, text in units(tmp_path, "http://127.0.0.1:9").items():
        (tmp_path / name).write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *sorted(tmp_path.glob("gavotte-paths.*"))],
        capture_output=True,
        text=True,
        env=os.environ | {"SYSTEMD_UNIT_PATH": f"{tmp_path}:"},
        timeout=60,
        check=False,
    )
    assert (done.returncode, [line for line in done.stderr.splitlines() if "gavotte" in line]) == (0, [])
    (when,) = re.findall(r"OnCalendar=(.+)", SHOWN)
    calendar = subprocess.run(
        ["systemd-analyze", "calendar", "--iterations=3", when], capture_output=True, text=True, timeout=60, check=False
    )
    assert calendar.returncode == 0, calendar.stderr
    times = re.findall(r":(\d\d):00 UTC", calendar.stdout)
    assert set(times[-3:]) == {"00", "30"}


@pytest.mark.rare
@pytest.mark.lab
def test_a_round_as_systemd_starts_it(study: Path) -> None:
    """With a service's environment: no HOME, no terminal, and no PATH but the system's."""
    with inbox() as (url, box):
        service = units(study, url)["gavotte-paths.service"]
        (line,) = re.findall(r"^ExecStart=(.+)$", service, re.MULTILINE)
        done = subprocess.run(
            shlex.split(line),
            cwd=study,
            env={"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    check_round(study, box.posts)


@pytest.mark.lab
@needs_cron
def test_a_round_as_cron_starts_it(study: Path) -> None:
    """A daemon of the test's own, which sees no other crontab than this line, due each minute."""
    assert CRON is not None
    with inbox() as (url, box):
        line = own(CRON[1], study, url).replace("*/30", "*", 1)
        spool = study / "spool"
        spool.mkdir(mode=0o700)
        (spool / "root").write_text(f"{line}\n")
        (spool / "root").chmod(0o600)
        (study / "none").mkdir()
        script = f"""
            mount --bind {shlex.quote(str(study / "none"))} /etc/cron.d
            mount --bind {shlex.quote(str(study / "none"))} /run
            mount --bind /dev/null /etc/crontab
            mount --bind {shlex.quote(str(spool))} /var/spool/cron/crontabs
            exec cron -f
        """
        daemon = subprocess.Popen(
            ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-euc", script],
            env={"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin"},
            stdin=subprocess.DEVNULL,
        )
        try:
            until(lambda: box.posts, deadline_s=100)
        finally:
            daemon.kill()
            daemon.wait()
    check_round(study, box.posts)


def test_the_examples_are_found() -> None:
    assert CRON is not None
    assert UNITS is not None
    assert len(units(Path("/srv"), "http://archive:9200")) == 2
