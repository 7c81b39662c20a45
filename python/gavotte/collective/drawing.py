"""A tree as text."""

from __future__ import annotations

from collections.abc import Sequence

from gavotte.formats.collective import Stage


def draw(stage: Stage, hosts: Sequence[str], *, most: int = 64) -> str:
    """Draws who sends to whom, children in their order; a chain goes on in its line.

    Args:
        stage: one tree.
        hosts: host of each rank.
        most: ranks that are drawn; the rest is counted.
    """
    below = stage.children
    lines: list[str] = []
    left = most
    stack: list[tuple[int, str, str]] = [(stage.root, "", "")]
    while stack and left > 0:
        rank, mark, indent = stack.pop()
        names = [hosts[rank]]
        left -= 1
        while len(below[rank]) == 1 and left > 0:
            rank = below[rank][0]
            names.append(hosts[rank])
            left -= 1
        lines.append(mark + " - ".join(names))
        children = below[rank]
        for place in range(len(children) - 1, -1, -1):
            last = place == len(children) - 1
            stack.append(
                (children[place], indent + ("`-- " if last else "|-- "), indent + ("    " if last else "|   "))
            )
    if len(hosts) > most:
        lines.append(f"... and {len(hosts) - most} more")
    return "\n".join(lines)
