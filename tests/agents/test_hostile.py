"""An agent that sends false or repeated answers, falls silent or hangs is dropped by name, and the others count."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from tests import builders
from tests.agents.hostile import (
    ODD,
    WORSE,
    Frozen,
    Mute,
    PlayedAgent,
    Storyteller,
    done,
    ready,
    serving,
)
from tests.shell import gavotte

from gavotte.agents import asking, fleet, replaying, schedule
from gavotte.errors import AgentError
from gavotte.formats.history import History
from gavotte.formats.inventory import write_inventory
from gavotte.hosts import check
from gavotte.measure import measure
from gavotte.measure.carry import fleet_carrier
from gavotte.measure.plan.path_plan import PathPlan
from gavotte.measure.sharing import learn_sharing
from gavotte.run import run

pytestmark = pytest.mark.slow

NAMES = ["a", "b", "evil", "c"]
REST = [0, 1, 3]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Agents on this machine answer at once or not at all."""
    monkeypatch.setattr(asking, "CALL_DEADLINE_S", 1.0)
    monkeypatch.setattr(asking, "LOST_DEADLINE_S", 0.2)
    monkeypatch.setattr(schedule, "WAIT_S", 0.3)
    monkeypatch.setattr(schedule, "SPARE_S", 0.3)
    monkeypatch.setattr(replaying, "CONNECT_S", 2.0)
    monkeypatch.setattr(PathPlan, "round_s", 0.5)
    monkeypatch.setattr(fleet_carrier, "DEADLINE_S", 0.5)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path, for sockets."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        yield Path(name)


def among(evil: PlayedAgent) -> dict[str, PlayedAgent]:
    return {name: evil if name == "evil" else PlayedAgent() for name in NAMES}


def known_rates(history: History) -> np.ndarray:
    result: np.ndarray = history.beta_Bps[0][np.ix_(REST, REST)]
    return result[~np.eye(len(REST), dtype=bool)]


@pytest.mark.parametrize("wrong", WORSE)
@pytest.mark.parametrize("method", ["train", "pingpong"])
def test_an_agent_that_misbehaves_is_dropped_by_name(wrong: str, method: str, folder: Path) -> None:
    with serving(folder, among(WORSE[wrong]())) as inventory:
        result = measure(inventory, method=method, count=2)
    assert list(result.missing | result.lost) == ["evil"]
    assert np.isfinite(known_rates(result.history)).all()
    rates = result.history.beta_Bps[np.isfinite(result.history.beta_Bps)]
    assert ((rates > 0) & (rates < 1e9)).all()


@pytest.mark.parametrize("odd", ODD)
def test_an_odd_agent_does_no_harm(odd: str, folder: Path) -> None:
    with serving(folder, among(ODD[odd]())) as inventory:
        result = measure(inventory)
        assert np.isfinite(known_rates(result.history)).all()
        texts = [*result.missing.values(), *result.lost.values(), *(each.reason for each in result.failures)]
        texts += [str(each) for each in result.beside] + [str(vars(host)) for host in check(inventory).hosts]
    assert all(text.isprintable() for text in texts)


@pytest.mark.parametrize("wrong", [*WORSE, *ODD])
def test_experiments_go_on_without_an_agent_that_misbehaves(wrong: str, folder: Path) -> None:
    beta = np.full((1, 4, 4), 1e8 / 8)
    history = builders.history(beta, hops=2 * (1 - np.eye(4, dtype=np.int64)), hosts=tuple(NAMES), method="train")
    with serving(folder, among((WORSE | ODD)[wrong]())) as inventory:
        completed, result = learn_sharing(inventory, history)
    assert "evil" in result.lost or wrong in ODD
    assert {name for each in completed.evidence for pair in each.pairs for name in pair} >= {"a", "b", "c"}
    assert all(np.isfinite([each.sum_bps, *each.alone_bps]).all() for each in completed.evidence)


STORIES: dict[str, Callable[..., list[object]]] = {
    "an unknown transfer": lambda _: [ready(), done(99)],
    "twice": lambda own: [ready(), done(own[0].id), done(own[0].id)],
    "done before ready": lambda own: [done(own[0].id), ready()],
    "ready twice": lambda own: [ready(), ready(), done(own[0].id)],
    "no number": lambda own: [ready(), done(own[0].id, finish_s=float("nan"))],
    "beyond the deadline": lambda own: [ready(), done(own[0].id, finish_s=1e8)],
    "nothing": lambda _: [ready()],
}


@pytest.mark.parametrize("story", STORIES)
def test_a_run_ends_by_naming_who_tells_what_cannot_be(story: str, folder: Path) -> None:
    app = builders.app("one", ("x", "y", 1000), ("y", "z", 1000))
    placed = builders.placement({"x": "evil", "y": "a", "z": "b"}, "one")
    evil = Storyteller(STORIES[story])  # type: ignore[arg-type]
    with serving(folder, among(evil)) as inventory, pytest.raises(AgentError, match="agent on evil"):
        run(placed, [app], inventory, max_seconds=2.0)


def test_a_run_does_not_wait_for_an_agent_that_never_connects(folder: Path) -> None:
    app = builders.app("one", ("x", "y", 1000), ("y", "z", 1000))
    placed = builders.placement({"x": "evil", "y": "a", "z": "b"}, "one")
    with serving(folder, among(Mute())) as inventory, pytest.raises(AgentError, match="agent on evil: it fell silent"):
        run(placed, [app], inventory, max_seconds=600.0)


def test_a_run_ends_when_an_agent_renews_no_more(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet, "MOST_LEASE_S", 1.0)
    monkeypatch.setattr(fleet, "SILENT_S", 1.0)
    app = builders.app("one", ("x", "y", 1000), ("y", "z", 1000))
    placed = builders.placement({"x": "evil", "y": "a", "z": "b"}, "one")
    frozen = pytest.raises(AgentError, match="agent on evil: it does not answer any more")
    with serving(folder, among(Frozen())) as inventory, frozen:
        run(placed, [app], inventory, max_seconds=600.0)


@pytest.mark.parametrize("words", ["measure --hosts", "hosts check --hosts", "hosts logs evil --hosts"])
def test_control_characters_never_reach_the_terminal(words: str, folder: Path) -> None:
    path = folder / "odd.hosts.toml"
    with serving(folder, among(ODD["escapes"]())) as inventory:
        write_inventory(path, inventory)
        result = gavotte(*words.split(), path)
    assert "Traceback" not in result.stderr
    assert all(text.replace("\n", "").isprintable() for text in (result.stdout, result.stderr))


def test_all_agents_that_hang_in_enrol_end_in_one_line(folder: Path) -> None:
    agents = {name: WORSE["hangs in Enrol"]() for name in NAMES}
    with serving(folder, agents) as inventory, pytest.raises(AgentError, match="refuses the run: deadline exceeded"):
        measure(inventory)
