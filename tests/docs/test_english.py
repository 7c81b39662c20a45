"""The parts of the tree that follow docs/contributing/english.md keep to its words and to short sentences."""

from __future__ import annotations

import ast
import re
import statistics
from pathlib import Path

import pytest
from tests.docs.prose import prose_of, sentences

TREE = Path(__file__).parents[2]
RULES = TREE / "docs" / "contributing" / "english.md"

REWRITTEN: tuple[str, ...] = (
    "tests/docs",
    "crates",
    "python/gavotte/__init__.py",
    "python/gavotte/_core.pyi",
    "python/gavotte/agents",
    "fuzz/targets",
    "proto",
    "python/gavotte/campaign",
    "python/gavotte/cli",
    "python/gavotte/compare",
    "python/gavotte/collective",
    "python/gavotte/demo",
    "python/gavotte/errors.py",
    "python/gavotte/export",
    "python/gavotte/extras.py",
    "python/gavotte/formats",
    "python/gavotte/guarantee",
    "python/gavotte/hosts",
    "python/gavotte/lab",
    "python/gavotte/launch",
    "python/gavotte/run",
    "python/gavotte/mapping",
    "python/gavotte/measure",
    "python/gavotte/model",
    "python/gavotte/mpi",
    "python/gavotte/place",
    "python/gavotte/profile",
    "python/gavotte/report",
    "python/gavotte/simulate",
    "python/gavotte/store",
    "python/gavotte/tables.py",
    "python/gavotte/terms",
    "python/gavotte/transfer",
    "python/gavotte/watch",
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "docs/conf.py",
    "docs/index.md",
    "docs/install.md",
    "docs/tutorial.md",
    "docs/reference/cli.md",
    "docs/reference/configuration.md",
    "docs/reference/environment.md",
    "docs/reference/python.md",
    "docs/guides/broadcast.md",
    "docs/guides/reach-your-hosts.md",
    "docs/guides/troubleshooting.md",
    "docs/guides/campaign.md",
    "docs/guides/collectives.md",
    "docs/guides/compare.md",
    "docs/guides/dask.md",
    "docs/guides/guarantee.md",
    "docs/guides/launch.md",
    "docs/guides/place.md",
    "docs/guides/schedulers.md",
    "docs/guides/schedulers/slurm.md",
    "docs/guides/schedulers/kubernetes.md",
    "docs/guides/schedulers/podgroups.md",
    "docs/guides/schedulers/kueue.md",
    "docs/guides/schedulers/volcano.md",
    "docs/guides/schedulers/diktyo.md",
    "docs/guides/schedulers/extender.md",
    "docs/guides/schedulers/plugin.md",
    "docs/guides/schedulers/topograph.md",
    "docs/guides/schedulers/ray.md",
    "docs/guides/schedulers/placements.md",
    "docs/guides/schedulers/host-files.md",
    "docs/guides/profile.md",
    "docs/guides/simulate.md",
    "docs/guides/spark.md",
    "docs/guides/transfers.md",
    "docs/concepts/broadcast.md",
    "docs/concepts/collectives.md",
    "docs/concepts/completion-time.md",
    "docs/concepts/lab.md",
    "docs/concepts/measurement.md",
    "docs/results/README.md",
    "docs/results/choreo.md",
    "docs/results/osmef.md",
    "docs/results/placement.md",
    "docs/results/profile.md",
    "docs/results/programs.md",
    "docs/results/simulator.md",
    "docs/concepts/constant.md",
    "docs/concepts/guarantees.md",
    "docs/concepts/placement.md",
    "docs/concepts/profile.md",
    "docs/concepts/sequences.md",
    "docs/concepts/sharing.md",
    "docs/concepts/shuffles.md",
    "docs/concepts/simulator.md",
    "docs/concepts/store.md",
    "docs/concepts/transfers.md",
    "docs/reference/formats.md",
    "docs/reference/wire.md",
    "docs/reference/store.md",
    "docs/reference/profile-sources.md",
    "docs/reference/benchmarks.md",
    "docs/reference/glossary.md",
    "docs/results/rpca.md",
    "docs/results/measurement.md",
    "docs/results/orchestra.md",
    "docs/results/elasticswitch.md",
    "examples",
    "benches",
    "tests/agents",
    "tests/campaign",
    "tests/cli",
    "tests/collective",
    "tests/compare",
    "tests/export",
    "tests/formats",
    "tests/fuzzing",
    "tests/guarantee",
    "tests/hosts",
    "tests/install",
    "tests/lab",
    "tests/mapping",
    "tests/model",
    "tests/mpi",
    "tests/place",
    "tests/profile",
    "tests/report",
    "tests/run",
    "tests/simulate",
    "tests/store",
    "tests/terms",
    "tests/watch",
    "tests/builders.py",
    "tests/chaos.py",
    "tests/conftest.py",
    "tests/examples.py",
    "tests/faults.py",
    "tests/reruns.py",
    "tests/running.py",
    "tests/shell.py",
    "tests/test_demo.py",
    "tests/test_floors.py",
    "tests/test_harnesses.py",
    "tests/test_library.py",
    "tests/test_version.py",
    "SECURITY.md",
    "tests/measure",
    "tests/transfer",
)
"""Files and folders that were rewritten in plain English. The list only grows."""

ENDINGS = {".py", ".pyi", ".rs", ".md", ".proto", ".c", ".h", ".ambr"}
GENERATED = re.compile(r"_pb2|/snapshots/")

BANNED = re.compile(
    r"\b(foret(?:ell|old)\w*|reckon\w*|besides?|nobody|whoever|anew|told|once more|mend(?:s|ed|ing)?"
    r"|so (?:many|long|much)|(?:is|are|was|were) not there|held against|becomes? of|by itself|wants for|comes about"
    r"|lest|thereby|whereof|wherefore)\b",
    re.IGNORECASE,
)
MOST_WORDS = 30
MOST_WORDS_ON_AVERAGE = 18
"""Of the sentences of a page of docs."""


def files(parts: tuple[str, ...] = REWRITTEN) -> list[Path]:
    """Return the files of `REWRITTEN`."""
    matches = [
        path for part in parts for path in ([TREE / part] if (TREE / part).is_file() else (TREE / part).rglob("*"))
    ]
    return sorted(
        path
        for path in set(matches)
        if path.is_file()
        and (path.suffix in ENDINGS or path.parent.name == "tools")
        and not GENERATED.search(str(path))
        and path not in (RULES, Path(__file__))
    )


def faults(path: Path) -> list[str]:
    """Return each banned word and each long sentence of a file, with its line."""
    lines = []
    for piece in prose_of(path):
        lines += [f"{path.name}:{piece.line}: `{word}`" for word in BANNED.findall(piece.text)]
        for sentence in sentences(piece.text) if piece.whole else ():
            if (words := len(sentence.split())) > MOST_WORDS:
                lines.append(f"{path.name}:{piece.line}: a sentence of {words} words: {sentence[:80]}")
    return lines


PARTICLES = {"anew", "found", "said", "there", "told"}


def unnamed(source: str) -> list[str]:
    """Return the variables and parameters of a module that are particles, each with its line."""
    names = [
        (node.lineno, node.id if isinstance(node, ast.Name) else node.arg)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.arg) or (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    ]
    return [f"line {line}: {name}" for line, name in names if name in PARTICLES]


RUST_VARIABLE = re.compile(rf"\blet (?:mut )?({'|'.join(sorted(PARTICLES))})\b")


@pytest.mark.slow
def test_variables_are_nouns() -> None:
    modules = [path for folder in ("python", "tests", "benches") for path in (TREE / folder).rglob("*.py")]
    assert len(modules) > 500
    assert {str(path): names for path in modules if (names := unnamed(path.read_text("utf-8")))} == {}
    assert unnamed("found = 1\ndef f(there, rate): rate = x.told\n") == ["line 1: found", "line 2: there"]


def test_rust_variables_are_nouns() -> None:
    modules = list((TREE / "crates").rglob("*.rs"))
    assert len(modules) > 200
    assert [str(path) for path in modules if RUST_VARIABLE.search(path.read_text("utf-8"))] == []


def test_every_part_exists() -> None:
    assert [part for part in REWRITTEN if not (TREE / part).exists()] == []


@pytest.mark.slow
@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(TREE)))
def test_a_rewritten_file_has_plain_words_and_short_sentences(path: Path) -> None:
    assert faults(path) == []


@pytest.mark.parametrize(
    "path", [each for each in files() if each.suffix == ".md"], ids=lambda path: str(path.relative_to(TREE))
)
def test_a_page_has_short_sentences_on_average(path: Path) -> None:
    lengths = [len(sentence.split()) for piece in prose_of(path) for sentence in sentences(piece.text)]
    assert statistics.fmean(lengths) <= MOST_WORDS_ON_AVERAGE


def test_the_check_finds_what_it_should(tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text('"""What is told of hosts."""\n# Nobody waits.\nraise ValueError("goes on beside others")\n')
    assert len(faults(bad)) == 3
    section = tmp_path / "section.py"
    section.write_text(
        f'"""Send.\n\n    Args:\n        told: fine.\n        at: {"word " * 31}\n            beside it.\n"""\n'
    )
    assert [fault.split(": ")[1] for fault in faults(section)] == ["`beside`", "a sentence of 33 words"]
    rust = tmp_path / "bad.rs"
    rust.write_text(f'/// Waits so long.\nfn f() {{ panic!("it is not there at all") }}\n// {"word " * 31}.\n')
    assert len(faults(rust)) == 3
    page = tmp_path / "page.md"
    page.write_text("Fine words.\n\n    beside code\n\n`beside` a literal.\n\n- one item\n- another\n")
    assert faults(page) == []
