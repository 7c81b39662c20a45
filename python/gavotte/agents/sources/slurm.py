"""Hosts of the current Slurm allocation, from the variables that Slurm sets."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from gavotte.agents.sources.assembly import MAX_HOSTS, Found, assemble
from gavotte.errors import FormatError
from gavotte.formats.inventory import Inventory

NODES = "SLURM_JOB_NODELIST"
OLD_NODES = "SLURM_NODELIST"
JOB_CPUS = "SLURM_JOB_CPUS_PER_NODE"
TASKS = "SLURM_TASKS_PER_NODE"
OWN_CPUS = "SLURM_CPUS_ON_NODE"
MEMORY = "SLURM_MEM_PER_NODE"

_RANGE = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")
_COUNT = re.compile(r"([0-9]{1,9})(?:\(x([0-9]{1,9})\))?")
_LIST_REMEDY = 'Slurm writes "node[01-03,07],login"; run inside an allocation'
_COUNT_REMEDY = 'Slurm writes "4(x3),2"; run inside an allocation'


def from_slurm(environ: Mapping[str, str]) -> Inventory:
    """Read the allocation.

    A host's cpus are those that the job was granted on it, else the tasks that it may start on it. Memory is known when
    the job asked for it by node.

    Args:
        environ: the job's variables.

    Raises:
        FormatError: naming the variable.
    """
    variable = OLD_NODES if OLD_NODES in environ and NODES not in environ else NODES
    text = environ.get(variable, "")
    if not text.strip():
        raise FormatError(f"${NODES}", "", "is not set", "run this inside an allocation of `salloc` or `sbatch`")
    names = expand_nodes(text, f"${variable}")
    cpus = _cpus(environ, len(names))
    memory = environ.get(MEMORY, "")
    memory_bytes = int(memory) << 20 if re.fullmatch("[0-9]{1,12}", memory) and int(memory) else None
    hosts = [
        Found(name, name, name, cpus=count, memory_bytes=memory_bytes) for name, count in zip(names, cpus, strict=True)
    ]
    return assemble(f"${variable}", hosts)


def expand_nodes(text: str, source: str = f"${NODES}") -> list[str]:
    """Expand `rack[0-1]n[01-03,07],login` in Slurm's order; the first number's width pads the range.

    Raises:
        FormatError: naming the character after which the text makes no sense.
    """
    names: list[str] = []
    seen: set[str] = set()
    start = 0
    for item in _split(text, source):
        where = f"character {start + 1}"
        for name in _expand_item(item, where, source):
            if name in seen:
                raise FormatError(source, where, f"`{name}` is named twice", _LIST_REMEDY)
            seen.add(name)
            names.append(name)
        if len(names) > MAX_HOSTS:
            raise FormatError(source, "", f"names more than {MAX_HOSTS} hosts", "use fewer")
        start += len(item) + 1
    return names


def expand_counts(text: str, source: str) -> list[int]:
    """Expand `4(x3),2` into 4, 4, 4, 2.

    Raises:
        FormatError: when it is anything else.
    """
    counts: list[int] = []
    for item in text.split(","):
        match = _COUNT.fullmatch(item.strip())
        repeat = int(match[2] or 1) if match else 0
        if not match or not 0 < repeat <= MAX_HOSTS or len(counts) + repeat > MAX_HOSTS:
            raise FormatError(source, "", f"`{item[:60]}` is not a number of cpus", _COUNT_REMEDY)
        counts += [int(match[1])] * repeat
    return counts


def _cpus(environ: Mapping[str, str], nodes: int) -> list[float | None]:
    for variable in (JOB_CPUS, TASKS):
        text = environ.get(variable, "")
        if not text.strip():
            continue
        counts = expand_counts(text, f"${variable}")
        if len(counts) != nodes:
            raise FormatError(f"${variable}", "", f"has {len(counts)} entries for {nodes} nodes", _COUNT_REMEDY)
        return [float(count) if count else None for count in counts]
    own = environ.get(OWN_CPUS, "")
    if nodes == 1 and re.fullmatch("[0-9]{1,9}", own) and int(own):
        return [float(own)]
    return [None] * nodes


def _split(text: str, source: str) -> list[str]:
    """Split at the commas outside brackets."""
    items = [""]
    depth = 0
    for index, letter in enumerate(text):
        depth += (letter == "[") - (letter == "]")
        if depth not in (0, 1):
            raise FormatError(source, f"character {index + 1}", f"`{letter}` closes no bracket", _LIST_REMEDY)
        if letter == "," and depth == 0:
            items.append("")
        else:
            items[-1] += letter
    if depth:
        raise FormatError(source, f"character {len(text)}", "a bracket is not closed", _LIST_REMEDY)
    return items


def _expand_item(item: str, where: str, source: str) -> list[str]:
    parts = re.split(r"\[([^\[\]]*)\]", item)
    literal = "".join(parts[::2])
    if not re.fullmatch(r"[A-Za-z0-9_.-]*", literal) or not literal[:1].isalnum() or not item[:1].isalnum():
        raise FormatError(source, where, f"`{item[:60]}` is not a node", _LIST_REMEDY)
    choices = [_ranges(part, where, source) for part in parts[1::2]]
    if math.prod(len(choice) for choice in choices) > MAX_HOSTS:
        raise FormatError(source, where, f"`{item[:60]}` is more than {MAX_HOSTS} nodes", "use fewer")
    names = [parts[0]]
    for choice, after in zip(choices, parts[2::2], strict=True):
        names = [f"{name}{number}{after}" for name in names for number in choice]
    return names


def _ranges(text: str, where: str, source: str) -> list[str]:
    numbers: list[str] = []
    for part in text.split(","):
        match = _RANGE.fullmatch(part)
        if not match:
            raise FormatError(source, where, f"`{part[:60]}` is not a number or a range", _LIST_REMEDY)
        low, high = int(match[1]), int(match[2] or match[1])
        if not 0 <= high - low < MAX_HOSTS:
            raise FormatError(source, where, f"range `{part[:60]}` is empty or too long", _LIST_REMEDY)
        numbers += [f"{number:0{len(match[1])}}" for number in range(low, high + 1)]
        if len(numbers) > MAX_HOSTS:
            raise FormatError(source, where, f"is more than {MAX_HOSTS} nodes", "use fewer")
    return numbers
