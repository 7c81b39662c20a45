"""Links that pairs share: those of the tree between them, whatever their number."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.agents.test_pivots import tree

from gavotte.measure.plan.concurrency import Concurrency
from gavotte.terms.hierarchy import hierarchy_of

SIZES = st.lists(
    st.lists(st.lists(st.integers(1, 3), min_size=1, max_size=4), min_size=1, max_size=3), min_size=1, max_size=3
)


@given(SIZES, st.booleans())
def test_a_pair_loads_the_links_of_the_tree_that_several_hosts_share(
    sizes: list[list[list[int]]],
    known: bool,
) -> None:
    lengths = tree(sizes)
    size = len(lengths)
    hierarchy = hierarchy_of([f"h{number}" for number in range(size)], lengths)
    earlier = {(0, 1): frozenset({"other"})} if known and size > 2 else {}
    concurrency = Concurrency(size, earlier, tolerance=0.05)
    shareable = {n for n, link in enumerate(hierarchy.links) if min(len(link.sources), len(link.targets)) > 1}
    assert concurrency.see(hierarchy) == bool(shareable)
    for i in range(size):
        for j in range(size):
            if i != j:
                shared = {hierarchy.label(link) for link in shareable.intersection(hierarchy.path(i, j))}
                assert concurrency.links((i, j)) - {"other"} == shared
                assert ("other" in concurrency.links((i, j))) == ((i, j) in earlier)
