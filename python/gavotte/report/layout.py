"""Lay hosts out by rate: the nearer two of them, the more they send each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gavotte.formats.network import Network
from gavotte.formats.parts.counting import counted
from gavotte.formats.parts.rates import format_rate

Floats = npt.NDArray[np.float64]
Box = tuple[float, float, float, float]
"""Left, right, upper and lower edge, in pixels."""

WIDTH, HEIGHT, MARGIN, SIDE = 900, 460, 25, 130
"""Largest size of the picture in pixels, its margin, and room for labels at the right."""
LEAST_SPREAD = 1.25
"""Ratio of the fast pairs' rate to the slow pairs' below which all hosts are alike, and a picture would show noise."""
MOST_OFF = 0.25
"""Largest median error of distances in the picture that it is drawn with."""
MOST = 300
"""Most hosts that are laid out."""
STEPS = 150
"""Steps of the improvement; more of them change no picture visibly."""
NEAR = 16.0
"""Distance below which hosts are drawn as one spot, in pixels."""
LETTER, LINE, GAP = 6.7, 13.0, 4.0
"""Width and height of a label's letters, and its distance from its spot, in pixels."""
NAMED = 3
"""Most hosts whose names a label has."""


@dataclass(frozen=True)
class Spot:
    """Hosts in one place.

    Attributes:
        x: its centre, in pixels.
        y: the same, down.
        radius: its radius.
        label: the names.
        begin: where its label begins; None = there is no room for it.
        tip: its text when it is pointed at.
    """

    x: float
    y: float
    radius: float
    label: str
    begin: float | None
    tip: str


@dataclass(frozen=True)
class Layout:
    """A picture of hosts.

    Attributes:
        spots: the hosts, those that are close to each other as one.
        off: error of the distances between hosts in the picture, relative and in the median.
        height: its height in pixels.
    """

    spots: list[Spot]
    off: float
    height: float
    width: int = WIDTH


def layout(network: Network, names: Sequence[str]) -> Layout | None:
    """Lay hosts out so that distances are as the times that a bit takes between them.

    Args:
        network: the rates. Of a pair without any, the median of its hosts' pairs counts.
        names: short names of the hosts.

    Returns:
        None if a picture would show nothing: fewer than three hosts or more than `MOST`, all pairs alike, or distances
        that no plane can have.
    """
    rates_bps = network.to_numpy()
    rates_bps = np.sqrt(rates_bps * rates_bps.T)
    known = rates_bps[np.isfinite(rates_bps)]
    if not 3 <= len(names) <= MOST or not known.size:
        return None
    slow, fast = np.quantile(known, (0.01, 0.99))
    if not slow > 0 or fast < LEAST_SPREAD * slow:
        return None
    # A few very slow or very fast pairs would push all others together.
    distance = np.clip(slow / np.where(rates_bps > 0, rates_bps, np.nan), 0.05, 3.0)
    middle = np.nanmedian(distance)
    own = np.array([np.nanmedian(row) if np.isfinite(row).any() else middle for row in distance])
    distance = np.where(np.isfinite(distance), distance, np.maximum.outer(own, own))
    np.fill_diagonal(distance, 0.0)
    place, off = _placed(distance)
    if off > MOST_OFF:
        return None
    place, height = _fitted(place)
    return Layout(_spots(_groups(place), names, rates_bps), off, height)


def _placed(distance: Floats) -> tuple[Floats, float]:
    """Return (N, 2) places whose distances are near those given, and the median of their relative errors.

    Classical scaling (Torgerson 1952) is the start, and SMACOF (de Leeuw 1977) improves it. Pairs weigh as in Kamada
    and Kawai 1989: the nearer, the more.
    """
    size = len(distance)
    centre = np.eye(size) - 1 / size
    value, vector = np.linalg.eigh(-0.5 * centre @ distance**2 @ centre)
    place = vector[:, [-1, -2]] * np.sqrt(value[[-1, -2]].clip(0.0))
    # Hosts in the same place would stay together, and eigenvectors have arbitrary signs.
    place = place * np.where(place[0] > 0, -1.0, 1.0) + 1e-3 * np.random.default_rng(0).standard_normal((size, 2))
    away = ~np.eye(size, dtype=bool)
    weight = np.where(away, 1 / np.where(away, distance, 1.0) ** 2, 0.0)
    inverse = np.linalg.pinv(np.diag(weight.sum(axis=1)) - weight)
    for _ in range(STEPS):
        ratio = np.where(away, weight * distance / np.maximum(_distances(place), 1e-9), 0.0)
        place = inverse @ ((np.diag(ratio.sum(axis=1)) - ratio) @ place)
    return place, float(np.median(np.abs(_distances(place)[away] / distance[away] - 1)))


def _distances(place: Floats) -> Floats:
    return np.asarray(np.hypot(*(place[:, None] - place[None]).transpose(2, 0, 1)))


def _fitted(place: Floats) -> tuple[Floats, float]:
    """Return places in pixels, both axes in the same scale, and the height of the picture."""
    # The longer side lies across.
    vector = np.linalg.eigh(np.cov(place.T))[1]
    place = (place - place.mean(axis=0)) @ vector[:, ::-1]
    place = place * np.where(place[0] > 0, -1.0, 1.0)
    low, high = place.min(axis=0), place.max(axis=0)
    room = np.array([WIDTH - 2 * MARGIN - SIDE, HEIGHT - 2 * MARGIN])
    scale = float((room / np.maximum(high - low, 1e-12)).min())
    return MARGIN + scale * (place - low), round(2 * MARGIN + scale * float(high[1] - low[1]), 1)


def _groups(place: Floats) -> list[tuple[Floats, list[int]]]:
    """Return the hosts in order, those near an earlier spot with it, and the centre of each spot."""
    groups: list[tuple[Floats, list[int]]] = []
    for host, at in enumerate(place):
        near = next((members for centre, members in groups if np.hypot(*(centre - at)) < NEAR), None)
        if near is None:
            groups.append((at, [host]))
        else:
            near.append(host)
    return [(place[members].mean(axis=0), members) for _, members in groups]


def _spots(groups: list[tuple[Floats, list[int]]], names: Sequence[str], rates_bps: Floats) -> list[Spot]:
    """Return the spots with a label where there is room for it, right or left of them. The loneliest come first."""
    lonely = [min((float(np.hypot(*(a - b))) for b, _ in groups if b is not a), default=0.0) for a, _ in groups]
    groups = [groups[at] for at in np.argsort(lonely)[::-1]]
    radius = [4.0 + 2.0 * len(members) ** 0.5 for _, members in groups]
    taken = [
        (float(x) - r, float(x) + r, float(y) - r, float(y) + r) for ((x, y), _), r in zip(groups, radius, strict=True)
    ]
    spots = []
    for ((x, y), members), r in zip(groups, radius, strict=True):
        listed = [names[host] for host in members]
        text = ", ".join(listed) if len(listed) <= NAMED else f"{listed[0]} and {len(listed) - 1} more"
        wide, begin = LETTER * len(text), None
        for left in (x + r + GAP, x - r - GAP - wide):
            box = (left, left + wide, y - LINE / 2, y + LINE / 2)
            if left >= 0 and box[1] <= WIDTH and not any(_overlap(box, other) for other in taken):
                taken.append(box)
                begin = round(float(left), 1)
                break
        spots.append(
            Spot(round(float(x), 1), round(float(y), 1), round(r, 1), text, begin, _tip(members, listed, rates_bps))
        )
    return spots


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[1] and other[0] < one[1] and one[2] < other[3] and other[2] < one[3]


def _tip(members: list[int], listed: list[str], rates_bps: Floats) -> str:
    inside = rates_bps[np.ix_(members, members)]
    others = np.delete(rates_bps[members], members, axis=1)
    lines = [", ".join(listed[:12]) + (f" and {counted(len(listed) - 12, 'host')} more" if len(listed) > 12 else "")]
    for words, values in (("with each other", inside), ("with others", others)):
        if (known := values[np.isfinite(values)]).size:
            lines.append(f"{format_rate(float(np.median(known)))} {words}, in the median")
    return "\n".join(lines)
