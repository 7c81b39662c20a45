"""Without the packages of the extras, the main verbs work, and the others name the extra that they need."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tomli
from tests import builders
from tests.shell import gavotte

import gavotte as package
from gavotte.errors import UnsupportedError
from gavotte.extras import lacking, needs

ROOT = Path(__file__).parents[2]
SOURCES = sorted(Path(package.__file__).parent.rglob("*.py"))
PROJECT = tomli.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = {name: wanted for name, wanted in PROJECT["optional-dependencies"].items() if name not in ("all", "dev")}
MODULES = [
    *(
        "aiohttp",
        "cryptography",
        "dask",
        "distributed",
        "highspy",
        "kubernetes",
        "matplotlib",
        "mpi4py",
        "openstack",
        "ortools",
    ),
    *("kahip", "mtkahypar", "pandas", "psycopg", "pyarrow", "pymetis", "scipy", "sqlalchemy"),
]
"""The modules that the packages of all extras bring."""


def without(folder: Path, *modules: str) -> dict[str, str]:
    """Return an environment in which no Python process finds these modules, as if they were not installed."""
    folder.mkdir(exist_ok=True)
    lines = ["import sys", *(f"sys.modules[{name!r}] = None" for name in modules)]
    (folder / "sitecustomize.py").write_text("\n".join(lines))
    return os.environ | {"PYTHONPATH": str(folder)}


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    return without(tmp_path / "bare", *MODULES)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with a History, its Network and an App that no search proves to be placed best."""
    from gavotte.formats.app import write_app
    from gavotte.formats.history import write_history
    from gavotte.formats.network import write_network

    rates = [[float(1e7 * (1 + (3 * m + 5 * n) % 7)) for n in range(6)] for m in range(6)]
    write_history(tmp_path / "cloud.npz", builders.history(np.array([rates, rates])))
    write_history(tmp_path / "later.npz", builders.history(np.array([rates, rates]) * [[[1.0]], [[1.1]]]))
    network = builders.network(6, [[8 * rate for rate in row] for row in rates], sharing="pipe")
    write_network(tmp_path / "cloud.network.json", network)
    transfers = [(f"t{m}", f"t{n}", 10_000_000 * (1 + (m * n) % 5)) for m in range(8) for n in range(8) if m != n]
    write_app(tmp_path / "job.app.toml", builders.app("job", *transfers, cpus=0.5))
    return tmp_path


def test_each_extra_that_the_code_names_exists_and_is_documented() -> None:
    used = {name for path in SOURCES for name in re.findall(r'needs\("(\w+)"\)', path.read_text())}
    assert used <= EXTRAS.keys()
    page = (ROOT / "docs" / "install.md").read_text()
    assert [name for name in EXTRAS if f"| `{name}` |" not in page] == []
    (every,) = PROJECT["optional-dependencies"]["all"]
    # Not every platform has the partitioners' wheels.
    assert set(every.removeprefix("gavotte[").removesuffix("]").split(",")) == EXTRAS.keys() - {"partitioners"}


def test_every_module_loads_without_extras_or_names_one(bare: dict[str, str]) -> None:
    names = [".".join(path.relative_to(SOURCES[0].parents[0].parent).with_suffix("").parts) for path in SOURCES]
    script = f"""
from importlib import import_module
from gavotte.errors import UnsupportedError
for name in {names!r}:
    if name.startswith("gavotte.mpi.") or name.endswith("_child"):
        continue
    try:
        import_module(name.removesuffix(".__init__"))
    except UnsupportedError as error:
        print(name, error.hint)
"""
    result = subprocess.run([sys.executable, "-c", script], env=bare, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    named = dict(line.split(" ", 1) for line in result.stdout.splitlines())
    others = {
        name: hint
        for name, hint in named.items()
        if not name.startswith(("gavotte.serve", "gavotte.store", "gavotte.transfer"))
    }
    assert others == {"gavotte.hosts.certificates": "pip install 'gavotte[tls]'"}
    for room, extra in (("serve", "serve"), ("store", "store"), ("transfer.dask", "dask")):
        hints = {hint for name, hint in named.items() if name.startswith(f"gavotte.{room}")}
        assert hints == {f"pip install 'gavotte[{extra}]'"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        "model cloud.npz",
        "place cloud.network.json job.app.toml --time-limit 0.3",
        "place cloud.network.json job.app.toml --method search --time-limit 0.3",
        "place cloud.network.json job.app.toml --method greedy",
        "report --network cloud.network.json -o page.html",
        "compare cloud.network.json cloud.network.json",
        "ranks --network cloud.network.json --pattern ring",
        "keep 3 --network cloud.network.json",
        "history --help",
    ],
)
def test_the_main_verbs_need_no_extra(files: Path, bare: dict[str, str], words: str) -> None:
    result = gavotte(*words.split(), cwd=files, env=bare)
    assert result.returncode == 0, result.stderr


def test_auto_says_what_it_did_not_prove(files: Path, bare: dict[str, str]) -> None:
    words = ["place", "cloud.network.json", "job.app.toml", "--time-limit", "0.3"]
    assert "a faster placement may exist: `ortools` is not installed; pip install 'gavotte[solvers]'" in (
        gavotte(*words, cwd=files, env=bare).stderr
    )
    assert "ortools" not in gavotte(*words, cwd=files).stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "package", "extra"),
    [
        ("model cloud.npz --plot cloud.svg", "matplotlib", "plots"),
        ("history list --store store.sqlite", "sqlalchemy", "store"),
        ("compare cloud.npz later.npz", "scipy", "statistics"),
        ("place cloud.network.json job.app.toml --method optimal", "ortools", "solvers"),
        ("place cloud.network.json job.app.toml --method ilp", "highspy", "solvers"),
        ("hosts keys -o keys a=10.0.0.1", "cryptography", "tls"),
        ("profile flows rows.parquet -o out.app.toml", "pyarrow", "parquet"),
        ("profile spark log.zst -o out.app.toml", "pyarrow", "parquet"),
    ],
)
def test_a_verb_names_the_extra_that_is_missing(
    files: Path, bare: dict[str, str], words: str, package: str, extra: str
) -> None:
    (files / "rows.parquet").write_bytes(b"PAR1")
    (files / "log.zst").write_bytes(b"\x28\xb5\x2f\xfd")
    result = gavotte(*words.split(), cwd=files, env=bare)
    assert result.stderr == f"error: `{package}` is not installed; pip install 'gavotte[{extra}]'\n"
    assert result.returncode == 1
    assert result.stdout == ""


def test_a_store_on_postgresql_names_its_own_extra(tmp_path: Path) -> None:
    env = without(tmp_path / "bare", "psycopg")
    result = gavotte("history", "list", "--store", "postgresql://u@db/net", env=env)
    assert result.stderr == "error: `psycopg` is not installed; pip install 'gavotte[postgresql]'\n"


def test_an_import_that_fails_otherwise_is_told_from_a_missing_package() -> None:
    with (
        pytest.raises(UnsupportedError, match="`gavotte_nothing` is not installed; pip install 'gavotte\\[plots\\]'"),
        needs("plots"),
    ):
        import gavotte_nothing  # type: ignore[import-not-found]  # noqa: F401
    with pytest.raises(UnsupportedError, match="`tls` cannot be loaded"), needs("tls"):
        raise ImportError("no library")
    with pytest.raises(ImportError, match="our own"), needs("tls"):
        raise ImportError("our own", name="gavotte.errors")
    assert lacking("json", "plots") is None
    assert "gavotte[plots]" in str(lacking("gavotte_nothing", "plots"))


@pytest.mark.lab
@pytest.mark.rare
def test_the_demo_needs_no_extra(tmp_path: Path, bare: dict[str, str]) -> None:
    result = gavotte("demo", "--json", cwd=tmp_path, env=bare)
    assert result.returncode == 0, result.stderr
    assert '"answered": 90' in result.stdout
