"""Draw a tree or a ring of a collective operation as text."""

from __future__ import annotations

from collections.abc import Sequence

from gavotte.formats.collective import Stage


def draw(stage: Stage, hosts: Sequence[str], *, most: int = 64) -> str:
    """Return the drawing of a tree or a ring as text, with children in their order and each chain on one line.

    Args:
        stage: a tree or a ring. A ring's members are on one line, and the ranks that hang from them below.
        hosts: host of each rank.
        most: largest number of ranks that are drawn; the rest is counted.
    """
    below = stage.children
    lines: list[str] = []
    if stage.ring:
        members, hanging = stage.order[: stage.ring], stage.order[stage.ring :]
        shown = [hosts[rank] for rank in members[:most]]
        lines.append(" - ".join([*shown, shown[0] if len(members) <= most else f"... and {len(members) - most} more"]))
        for rank in members[:most]:
            hung = [hosts[other] for other in hanging if stage.parent[other] == rank]
            lines += [f"from {hosts[rank]} hang {', '.join(hung)}"] if hung else []
        return "\n".join(lines)
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
