"""Real MPI libraries obey the settings that are written for them: the bytes that each host sends show the algorithm."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from benches.mpi import available, launch
from tests.builders import topology

from gavotte import lab
from gavotte.collective.tuning import TunedSize, Tuning, TuningQuestion, settings_text, variables
from gavotte.terms.algorithms import Library

pytestmark = pytest.mark.lab

PROGRAM = Path(__file__).with_name("sent.py")
RATES = ("400mbit", "100mbit", "200mbit", "400mbit")
CLOUD = topology([{"name": f"h{i}", "rate": rate} for i, rate in enumerate(RATES)])
HOSTS = [f"h{i}" for i in range(len(RATES))]
SMALL, LARGE = 100_000, 1_000_000
ROUNDS = 5


@pytest.fixture(scope="module")
def session() -> Iterator[lab.Session]:
    with lab.session(CLOUD, agents=False) as session:
        yield session


def tuning(library: Library, operation: str, **algorithms: int) -> Tuning:
    """Return a tuning with these algorithms for the small and the large size."""
    sizes = {"small": SMALL, "large": LARGE}
    question = TuningQuestion(library, len(HOSTS), {operation: list(sizes.values())}, reorder_sums=True)
    choices = [TunedSize(operation, sizes[key], 0, 1.0, number, 0, 0.5) for key, number in algorithms.items()]
    return Tuning(question, choices)


def shares(
    session: lab.Session, implementation: str, operation: str, scratch: Path, environment: Mapping[str, str]
) -> list[list[float]]:
    """Return the bytes that each host sent in a call, as multiples of the size, for the small and the large size."""
    if not available(implementation):
        pytest.skip(f"no {implementation}")
    words: list[str | Path] = [PROGRAM, operation, str(ROUNDS), str(SMALL), str(LARGE)]
    ran = launch(session, implementation, words, ranks=HOSTS, scratch=scratch, environment=environment, timeout_s=100)
    assert ran.returncode == 0, ran.stderr
    lines = [list(map(float, line.split())) for line in ran.stdout.splitlines()]
    return [[count / size for count in line] for line, size in zip(lines, (SMALL, LARGE), strict=True)]


def test_open_mpi_obeys_rules_by_size(session: lab.Session, tmp_path: Path) -> None:
    # A pipeline's root sends the message once, a linear broadcast's root to each of the three others.
    rules = tuning("openmpi", "bcast", small=1, large=3)
    file = tmp_path / "rules"
    file.write_text(settings_text(rules.question.library, rules.settings))
    small, large = shares(
        session, "openmpi", "bcast", tmp_path, variables(rules.question.library, rules.settings, str(file))
    )
    assert small == pytest.approx([3, 0, 0, 0], abs=0.3)
    assert large == pytest.approx([1, 1, 1, 0], abs=0.2)
    # The other way round, so that no default can explain both.
    rules = tuning("openmpi", "bcast", small=3, large=1)
    file.write_text(settings_text(rules.question.library, rules.settings))
    small, large = shares(
        session, "openmpi", "bcast", tmp_path, variables(rules.question.library, rules.settings, str(file))
    )
    assert small == pytest.approx([1, 1, 1, 0], abs=0.3)
    assert large == pytest.approx([3, 0, 0, 0], abs=0.3)


def test_open_mpi_keeps_its_own_choice_elsewhere(session: lab.Session, tmp_path: Path) -> None:
    default = shares(session, "openmpi", "bcast", tmp_path, {})
    rules = tuning("openmpi", "bcast", small=0, large=3)
    file = tmp_path / "rules"
    file.write_text(settings_text(rules.question.library, rules.settings))
    small, large = shares(
        session, "openmpi", "bcast", tmp_path, variables(rules.question.library, rules.settings, str(file))
    )
    assert small == pytest.approx(default[0], abs=0.3)
    assert default[1] != pytest.approx(large, abs=0.5)
    # Rules for communicators of another size.
    other = Tuning(TuningQuestion("openmpi", 3, {"bcast": [SMALL, LARGE]}), rules.choices)
    file.write_text(settings_text(other.question.library, other.settings))
    alike = shares(session, "openmpi", "bcast", tmp_path, variables(other.question.library, other.settings, str(file)))
    assert [value for each in alike for value in each] == pytest.approx(
        [value for each in default for value in each], abs=0.3
    )


@pytest.mark.rare
def test_open_mpi_counts_all_blocks_of_an_allgather(session: lab.Session, tmp_path: Path) -> None:
    # Each member of a ring sends three blocks; with a linear gather and a broadcast the root sends most.
    rules = tuning("openmpi", "allgather", small=4, large=1)
    assert [each.from_bytes for each in rules.settings][1] == 4 * SMALL
    file = tmp_path / "rules"
    file.write_text(settings_text(rules.question.library, rules.settings))
    small, large = shares(
        session, "openmpi", "allgather", tmp_path, variables(rules.question.library, rules.settings, str(file))
    )
    assert small == pytest.approx([3, 3, 3, 3], abs=0.5)
    assert max(large) > 3.8


def test_mpich_obeys_variables(session: lab.Session, tmp_path: Path) -> None:
    # A binomial tree's root sends the message twice; a scatter and a ring send three quarters each.
    binomial = tuning("mpich", "bcast", small=1, large=1)
    _, large = shares(session, "mpich", "bcast", tmp_path, variables(binomial.question.library, binomial.settings, ""))
    assert large[0] == pytest.approx(2, abs=0.2)
    ring = tuning("mpich", "bcast", small=3, large=3)
    _, large = shares(session, "mpich", "bcast", tmp_path, variables(ring.question.library, ring.settings, ""))
    assert large[0] == pytest.approx(1.5, abs=0.2)
