"""R-MAT graphs with Graph500's parameters: few vertices with many edges, and low numbers the popular ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# Graph500's corner probabilities 0.57, 0.19, 0.19, 0.05 as running sums, in units of 2**-16. Every level of every edge
# takes one 16-bit draw, a fifth of the time of a float.
CORNERS = tuple(round(share * 65536) for share in (0.57, 0.76, 0.95))
CHUNK_EDGES = 1 << 16  # small enough for the cache, and each chunk has its own seed

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Graph:
    """Parameters of a graph: `2**scale` vertices, `edge_factor` edges a vertex."""

    scale: int
    edge_factor: int
    seed: int

    @property
    def vertices(self) -> int:
        """The number of vertices."""
        return 1 << self.scale

    @property
    def edges(self) -> int:
        """The number of edges; some occur twice, and then count twice."""
        return self.edge_factor << self.scale

    def chunks(self) -> Iterator[tuple[Ids, Ids]]:
        """Draw the edges as arrays of sources and targets, the same ones for any number of ranks."""
        for number, start in enumerate(range(0, self.edges, CHUNK_EDGES)):
            count = min(CHUNK_EDGES, self.edges - start)
            generator = np.random.default_rng((self.seed, number))
            draws = generator.integers(0, 65536, size=(self.scale, count), dtype=np.uint16)
            source = np.zeros(count, dtype=np.int64)
            target = np.zeros(count, dtype=np.int64)
            for draw in draws:
                south = draw >= CORNERS[1]
                east = ((draw >= CORNERS[0]) & ~south) | (draw >= CORNERS[2])
                source = (source << 1) | south
                target = (target << 1) | east
            yield source, target
