"""Child process that runs CP-SAT, with one JSON request per line on stdin and one answer per line on stdout.

It runs as a script, by path. It imports nothing of this package, and only the compiled module of OR-tools. That
module loads in less than a tenth of the public module's time, which imports pandas. HiGHS must never be loaded in the
same process.
"""

from __future__ import annotations

import json
import sys
from typing import Any


def solve(request: dict[str, str]) -> dict[str, object]:
    """Solve one CP-SAT model, given as text with its parameters, and return its status, solution and bound."""
    from ortools.sat.python import cp_model_helper as native

    model, parameters = native.CpModelProto(), native.SatParameters()
    if not model.parse_text_format(request["model"]) or not parameters.parse_text_format(request["parameters"]):
        return {"status": "MODEL_INVALID"}
    solver: Any = native.SolveWrapper()
    solver.set_parameters(parameters)
    answer = solver.solve(model)
    return {
        "status": answer.status.name,
        "solution": list(answer.solution),
        "objective": answer.objective_value,
        "bound": answer.best_objective_bound,
        "core": list(answer.sufficient_assumptions_for_infeasibility),
        "deterministic_s": answer.deterministic_time,
        "wall_s": answer.wall_time,
    }


if __name__ == "__main__":
    for line in sys.stdin:
        sys.stdout.write(json.dumps(solve(json.loads(line))) + "\n")
        sys.stdout.flush()
