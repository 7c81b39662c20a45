"""Imports go down the floors and never round in a circle; no room knows another, nothing below the top floor prints."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "python" / "gavotte"
ROOMS = {
    "campaign",
    "collective",
    "compare",
    "export",
    "guarantee",
    "hosts",
    "lab",
    "mapping",
    "measure",
    "model",
    "mpi",
    "profile",
    "place",
    "plot",
    "run",
    "report",
    "simulate",
    "store",
    "transfer",
}
FLOORS = [
    {"errors"},
    {"extras"},
    {"loading", "tables", "processes"},
    {"formats"},
    {"terms"},
    {"_core"},
    {"agents"},
    ROOMS,
    {"demo", "launch", "serve", "watch"},
    {"aio"},
    {"cli"},
    {"__main__"},
]
FLOOR = {name: number for number, names in enumerate(FLOORS) for name in names}
SOURCES = sorted(path for path in PACKAGE.rglob("*.py") if "_pb2" not in path.name)


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    """Return our own top-level names that a file imports, anywhere in it."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: write absolute imports"
            modules = [node.module or ""]
            if node.module == "gavotte":
                modules = [f"gavotte.{alias.name}" for alias in node.names]
        else:
            continue
        names |= {module.split(".")[1] for module in modules if module.startswith("gavotte.")}
    return names


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_go_down(path: Path) -> None:
    own = room(path)
    if own == "__init__":
        return
    for name in imported(path) - {own}:
        assert FLOOR[name] < FLOOR[own], f"{path} imports {name}"


@pytest.mark.each_case
@pytest.mark.slow
@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_only_the_command_line_prints(path: Path) -> None:
    if room(path) == "cli":
        return
    calls = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    assert not [call for call in calls if isinstance(call, ast.Name) and call.id == "print"]


WARNS = {"warning", "error", "critical", "exception", "warn"}
"""Calls by which a logger, or the module `warnings`, writes to users on its own."""


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_rooms_return_warnings_and_never_write_them(path: Path) -> None:
    """Warnings are data on answers. Logs of rooms are for `-v`; `lab` has processes of its own, without a command line.

    Agents log what is of use only while a run waits for them, and formats log a rate that is probably a mistake.
    """
    if room(path) not in ROOMS | {"aio", "demo", "launch", "serve", "watch"} or path.name in {"keeper.py", "warden.py"}:
        return
    tree = ast.parse(path.read_text())
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    loggers = {"logger", "logging", "warnings"}
    attributes = [call for call in calls if isinstance(call, ast.Attribute) and isinstance(call.value, ast.Name)]
    assert not [each for each in attributes if each.value.id in loggers and each.attr in WARNS]  # type: ignore[attr-defined]
    assert not [each for each in attributes if ast.unparse(each) == "sys.stderr.write"]


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_warnings_are_printed_in_one_place(path: Path) -> None:
    """`cli.output.warn` prints the warnings of all answers, `cli.logs` those that agents and formats log."""
    if room(path) == "cli" and path.name not in {"output.py", "logs.py"}:
        texts = [node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)]
        assert not [text for text in texts if isinstance(text, str) and text.startswith("warning: ")]


ANSWERS = {
    "campaign": ["Comparison", "Section"],
    "compare": ["NetworkComparison"],
    "guarantee": ["Admission", "Applied", "GuaranteeStatus"],
    "hosts": ["Check", "HostState"],
    "lab": ["LabStatus"],
    "measure": ["Calibration", "CrossTraffic", "Measurement", "Pilot", "SharingResult", "SlowHosts"],
    "place": ["Answer", "Compared", "Question"],
    "profile": ["Profile", "Traffic"],
    "run": ["RunResult"],
    "simulate": ["Simulation"],
    "transfer": ["BroadcastPlan", "BroadcastResult", "PullResult", "ShuffleResult"],
}
"""Types of answers that have warnings, by room."""


@pytest.mark.each_case
@pytest.mark.slow
@pytest.mark.parametrize("name", ANSWERS)
def test_answers_have_their_warnings(name: str) -> None:
    attributes = {}
    for path in sorted((PACKAGE / name).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                own = {
                    each.target.id
                    for each in node.body
                    if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
                }
                attributes[node.name] = own | {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
    assert {each for each, own in attributes.items() if "warnings" in own} == set(ANSWERS[name])


STOREYS = ["plan", "adapt", "carry", "predict"]
"""Folders of `measure`, from the lowest. What lies in none of them is above all: the front doors of the room."""


def storey(parts: tuple[str, ...]) -> int:
    """Return the storey of a module of `measure`, given by the names of its path below the room."""
    return STOREYS.index(parts[0]) if parts and parts[0] in STOREYS else len(STOREYS)


def imported_in_measure(path: Path) -> set[tuple[str, ...]]:
    """Return the paths below `measure` of all modules and names that a file imports from the room."""
    modules = set[str]()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            modules |= {f"{node.module}.{alias.name}" for alias in node.names}
    start = "gavotte.measure."
    return {tuple(module.removeprefix(start).split(".")) for module in modules if module.startswith(start)}


@pytest.mark.parametrize("name", STOREYS)
def test_the_storeys_of_measure_stand_on_lower_ones(name: str) -> None:
    folder = PACKAGE / "measure" / name
    files = sorted(folder.rglob("*.py"))
    assert len(files) > 1
    for path in files:
        for parts in imported_in_measure(path):
            assert storey(parts) <= storey((name,)), f"{path} imports {'.'.join(parts)}"


IO = {"time", "threading", "socket", "subprocess", "asyncio"}
IO_OF_AGENTS = {"Fleet", "Reach", "enrolled", "reaching", "carry_out", "replay", "Losses", "drop_lost"}


@pytest.mark.parametrize("name", ["plan", "adapt"])
def test_decisions_of_a_measurement_read_no_clock_and_send_nothing(name: str) -> None:
    for path in sorted((PACKAGE / "measure" / name).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                assert not {alias.name for alias in node.names} & IO, path
            elif isinstance(node, ast.ImportFrom):
                assert node.module not in IO, path
                assert not {alias.name for alias in node.names} & IO_OF_AGENTS, path


def test_methods_of_measurement_differ_by_what_they_can_do() -> None:
    """No module compares names of methods: what differs between methods is an attribute of `Method`."""
    names = {"train", "choreo", "bulk", "pingpong"}
    comparisons = []
    for path in SOURCES:
        if room(path) not in {"measure", "watch"} and path.name != "measure.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Compare | ast.MatchValue):
                words = {each.value for each in ast.walk(node) if isinstance(each, ast.Constant)}
                comparisons += [f"{path}: {ast.unparse(node)}"] * bool(words & names)
    assert comparisons == []


def test_no_imports_go_round_in_a_circle() -> None:
    output = subprocess.run(
        [sys.executable, ROOT / "tools" / "import-graph"], capture_output=True, text=True, check=False
    )
    assert " imports, " in output.stdout, output.stderr
    assert output.returncode == 0, output.stdout


MOST_PARAMETERS = 8
"""Of a function; what belongs together travels in one dataclass."""
MOST_LINES = 80
"""Of a function of the command line, which declares options, asks a room and prints its answer."""


def oversized(path: Path) -> set[str]:
    """Return the functions of a file that are above the limits."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            given = node.args
            own = [
                each.arg
                for each in (*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg)
                if each
            ]
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if len([name for name in own if name not in ("self", "cls")]) > MOST_PARAMETERS or (
                room(path) == "cli" and lines > MOST_LINES
            ):
                names.add(f"{path.relative_to(PACKAGE)}: {node.name}")
    return names


def test_functions_take_few_parameters_and_commands_are_short() -> None:
    assert set().union(*map(oversized, SOURCES)) == set()
