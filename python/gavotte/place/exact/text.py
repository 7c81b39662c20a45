"""Builder of a CP-SAT model as text: OR-tools' `CpModelProto` in protobuf's text format.

A child process reads the text, so nothing here imports OR-tools. A literal is a variable's index, or `-index - 1` for
its negation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Literal = int
Terms = Sequence[tuple[int, Literal]]

_LEAST, _MOST = -(2**63), 2**63 - 1


def negated(literal: Literal) -> Literal:
    """Return the negation of a literal, which is true if and only if the literal is false."""
    return -literal - 1


class Model:
    """A CP-SAT model to which variables and constraints are added.

    Coefficients are integers; terms are (coefficient, variable).
    """

    def __init__(self) -> None:
        self._variables: list[str] = []
        self._constraints: list[str] = []
        self._objective = ""
        self._hint: dict[int, int] = {}
        self._assumptions: list[Literal] = []

    def boolean(self) -> Literal:
        """Add a variable of 0 or 1, and return it as a literal."""
        return self.integer(0, 1)

    def integer(self, least: int, most: int) -> int:
        """Add an integer variable from `least` to `most`, and return its index."""
        self._variables.append(f"variables {{ domain: [{least}, {most}] }}")
        return len(self._variables) - 1

    def clause(self, literals: Iterable[Literal]) -> None:
        """Require that at least one of the literals is true."""
        self._add("bool_or", literals)

    def exactly_one(self, literals: Iterable[Literal], only_if: Literal | None = None) -> None:
        """Require that exactly one of the literals is true; with `only_if`, only if that literal is true."""
        chosen = list(literals)
        if only_if is None:
            self._add("exactly_one", chosen)
        else:
            self.linear([(1, literal) for literal in chosen], least=1, most=1, only_if=only_if)

    def linear(
        self, terms: Terms, *, least: int | None = None, most: int | None = None, only_if: Literal | None = None
    ) -> None:
        """Require `least <= sum of terms <= most`; with `only_if`, only if that literal is true."""
        if not terms:
            return
        variables = ", ".join(str(variable) for _, variable in terms)
        coefficients = ", ".join(str(coefficient) for coefficient, _ in terms)
        domain = f"{_LEAST if least is None else least}, {_MOST if most is None else most}"
        literal = "" if only_if is None else f"enforcement_literal: {only_if} "
        self._constraints.append(
            f"constraints {{ {literal}linear {{ vars: [{variables}] coeffs: [{coefficients}] domain: [{domain}] }} }}"
        )

    def minimize(self, terms: Terms) -> None:
        """Set the objective: minimize the sum of these terms."""
        variables = ", ".join(str(variable) for _, variable in terms)
        coefficients = ", ".join(str(coefficient) for coefficient, _ in terms)
        self._objective = f"objective {{ vars: [{variables}] coeffs: [{coefficients}] }}"

    def hint(self, variable: int, value: int) -> None:
        """Suggest a value of a variable that the solver tries first."""
        self._hint[variable] = value

    def assume(self, literals: Iterable[Literal]) -> None:
        """Assume that these literals are true; without a solution, the solver returns some that conflict."""
        self._assumptions.extend(literals)

    def text(self) -> str:
        """Return the whole model in protobuf's text format."""
        parts = [*self._variables, *self._constraints, self._objective]
        if self._hint:
            values = ", ".join(map(str, self._hint.values()))
            parts.append(f"solution_hint {{ vars: [{', '.join(map(str, self._hint))}] values: [{values}] }}")
        if self._assumptions:
            parts.append(f"assumptions: [{', '.join(map(str, self._assumptions))}]")
        return "\n".join(parts)

    def _add(self, kind: str, literals: Iterable[Literal]) -> None:
        self._constraints.append(f"constraints {{ {kind} {{ literals: [{', '.join(map(str, literals))}] }} }}")
