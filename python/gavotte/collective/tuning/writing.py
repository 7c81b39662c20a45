"""Write settings as MPI libraries read them: Open MPI's file of rules, MPICH's environment variables."""

from __future__ import annotations

from collections.abc import Sequence

from gavotte.terms.algorithms import Library, Setting, algorithm_name

OPEN_MPI_FILE = "OMPI_MCA_coll_tuned_dynamic_rules_filename"
"""Variable that names Open MPI's file of rules."""

# ompi/mca/coll/base/coll_base_functions.h, COLLTYPE; the same in 4.1.4 and 5.0.
_NUMBERS = {"allgather": 0, "allreduce": 2, "alltoall": 3, "barrier": 6, "bcast": 7, "reduce": 11}
_OWN = ["1 # rule", "0 0 0 0 # from 0 bytes: default"]


def variables(library: Library, settings: Sequence[Setting], file: str) -> dict[str, str]:
    """Return the environment variables of ranks that make the library obey settings; empty = there are none.

    Args:
        library: the MPI library.
        settings: the settings.
        file: path of the text of `settings_text`, which all hosts can read, for Open MPI.
    """
    if not settings:
        return {}
    if library == "openmpi":
        return {"OMPI_MCA_coll_tuned_use_dynamic_rules": "1", OPEN_MPI_FILE: file}
    return {
        f"MPIR_CVAR_{each.operation.upper()}_INTRA_ALGORITHM": algorithm_name(library, each.operation, each.algorithm)
        for each in settings
    }


def settings_text(library: Library, settings: Sequence[Setting]) -> str:
    """Return the text of a file: Open MPI's rules, or lines `VARIABLE=VALUE` for MPICH."""
    if library == "mpich":
        return "".join(f"{name}={value}\n" for name, value in variables(library, settings, "").items())
    operations = sorted({each.operation for each in settings}, key=_NUMBERS.__getitem__)
    lines = [f"{len(operations)} # collectives"]
    for operation in operations:
        lines += _operation(operation, [each for each in settings if each.operation == operation])
    return "\n".join(lines) + "\n"


def _operation(operation: str, settings: Sequence[Setting]) -> list[str]:
    """Return the lines of one operation. Communicators of sizes without a setting get the library's own choice.

    Open MPI takes the rules of the largest size that a communicator reaches, or else the first ones.
    """
    by_members: dict[int, list[str]] = {1: ["1 # ranks and more", *_OWN]}
    for members in sorted({each.members for each in settings}):
        rules = sorted((each for each in settings if each.members == members), key=lambda each: each.from_bytes)
        by_members[members] = [f"{members} # ranks", f"{len(rules)} # rules", *map(_rule, rules)]
        by_members[members + 1] = [f"{members + 1} # ranks and more", *_OWN]
    lines = [f"{_NUMBERS[operation]} # {operation}", f"{len(by_members)} # sizes of communicators"]
    return [*lines, *(line for members in sorted(by_members) for line in by_members[members])]


def _rule(setting: Setting) -> str:
    """Return the line of a rule: bytes, algorithm, fan-out (0 = its default) and bytes of a piece."""
    pieces = f" in pieces of {setting.segment_bytes} bytes" if setting.segment_bytes else ""
    name = algorithm_name("openmpi", setting.operation, setting.algorithm)
    numbers = f"{setting.from_bytes} {setting.algorithm} 0 {setting.segment_bytes}"
    return f"{numbers} # from {setting.from_bytes} bytes: {name}{pieces}"
