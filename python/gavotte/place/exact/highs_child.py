"""Child process that runs HiGHS, with one JSON request per line on stdin and one answer per line on stdout.

It runs as a script, by path. It imports nothing of this package, and must never load OR-tools in the same process.
"""

from __future__ import annotations

import json
import sys
from typing import Any


def solve(request: dict[str, Any]) -> dict[str, object]:
    """Minimize `cost` over columns from 0 to `upper`, under `rows`; the first `binaries` columns are integers.

    Without binaries, the bound is the objective of an optimal solution, and 0 otherwise.
    """
    import highspy
    import numpy as np

    program = highspy.HighsLp()
    columns, rows = len(request["cost"]), request["rows"]
    program.num_col_, program.num_row_ = columns, len(rows)
    program.col_cost_ = np.array(request["cost"], dtype=float)
    program.col_lower_ = np.zeros(columns)
    program.col_upper_ = np.array(request["upper"], dtype=float)
    program.row_lower_ = np.array([row[0] for row in rows], dtype=float)
    program.row_upper_ = np.array([row[1] for row in rows], dtype=float)
    program.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    program.a_matrix_.start_ = np.cumsum([0, *(len(row[2]) for row in rows)])
    program.a_matrix_.index_ = np.array([term[0] for row in rows for term in row[2]], dtype=np.int32)
    program.a_matrix_.value_ = np.array([term[1] for row in rows for term in row[2]], dtype=float)
    whole, any_value = highspy.HighsVarType.kInteger, highspy.HighsVarType.kContinuous
    program.integrality_ = [whole if column < request["binaries"] else any_value for column in range(columns)]
    module: Any = highspy
    solver = module.Highs()
    for name, value in (
        ("output_flag", False),
        ("threads", 1),
        ("random_seed", request["seed"]),
        ("time_limit", request["limit_s"]),
        ("mip_rel_gap", 1e-7),
        ("mip_feasibility_tolerance", 1e-9),
        ("primal_feasibility_tolerance", 1e-9),
    ):
        solver.setOptionValue(name, value)
    solver.passModel(program)
    solver.run()
    status = solver.getModelStatus()
    info = solver.getInfo()
    feasible = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    bound = info.mip_dual_bound
    if not request["binaries"]:
        bound = info.objective_function_value if status == highspy.HighsModelStatus.kOptimal else 0.0
    names = {highspy.HighsModelStatus.kOptimal: "optimal", highspy.HighsModelStatus.kInfeasible: "infeasible"}
    return {
        "status": names.get(status, "stopped"),
        "solution": list(solver.getSolution().col_value) if feasible else [],
        "bound": max(bound, 0.0) if abs(bound) < 1e300 else 0.0,
    }


if __name__ == "__main__":
    for line in sys.stdin:
        sys.stdout.write(json.dumps(solve(json.loads(line))) + "\n")
        sys.stdout.flush()
