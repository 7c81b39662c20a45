"""A CP-SAT model as text: OR-tools' `CpModelProto` in protobuf's text format.

The text goes to a process of its own, so nothing here imports OR-tools. A literal is a variable's index, or
`-index - 1` for its negation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Literal = int
Terms = Sequence[tuple[int, Literal]]

_LEAST, _MOST = -(2**63), 2**63 - 1


def negated(literal: Literal) -> Literal:
    """The literal that is true where this one is false."""
    return -literal - 1


class Model:
    """Grows by variables and constraints. Coefficients are integers; terms are (coefficient, variable)."""

    def __init__(self) -> None:
        self._variables: list[str] = []
        self._constraints: list[str] = []
        self._objective = ""
        self._hint: dict[int, int] = {}
        self._assumptions: list[Literal] = []

    def boolean(self) -> Literal:
        """A new variable of 0 or 1."""
        return self.integer(0, 1)

    def integer(self, least: int, most: int) -> int:
        """A new variable from `least` to `most`."""
        self._variables.append(f"variables {{ domain: [{least}, {most}] }}")
        return len(self._variables) - 1

    def clause(self, literals: Iterable[Literal]) -> None:
        """At least one is true."""
        self._add("bool_or", literals)

    def exactly_one(self, literals: Iterable[Literal], only_if: Literal | None = None) -> None:
        """One is true, the others are false; with `only_if`, where that holds."""
        chosen = list(literals)
        if only_if is None:
            self._add("exactly_one", chosen)
        else:
            self.linear([(1, literal) for literal in chosen], least=1, most=1, only_if=only_if)

    def linear(
        self, terms: Terms, *, least: int | None = None, most: int | None = None, only_if: Literal | None = None
    ) -> None:
        """`least <= sum of terms <= most`; with `only_if`, where that holds."""
        if not terms:
            return
        variables = ", ".join(str(variable) for _, variable in terms)
        coefficients = ", ".join(str(coefficient) for coefficient, _ in terms)
        domain = f"{_LEAST if least is None else least}, {_MOST if most is None else most}"
        literal = "" if only_if is None else f"enforcement_literal: {only_if} "
        self._constraints.append(
            f"constraints {{ {literal}linear {{ vars: [{variables}] coeffs: [{coefficients}] domain: [{domain}] }} }}"
        )

    def minimize(self, variables: Sequence[int]) -> None:
        """Makes the sum of these as small as it can be."""
        listed = ", ".join(map(str, variables))
        self._objective = f"objective {{ vars: [{listed}] coeffs: [{', '.join('1' for _ in variables)}] }}"

    def hint(self, variable: int, value: int) -> None:
        """A value to try first."""
        self._hint[variable] = value

    def assume(self, literals: Iterable[Literal]) -> None:
        """Literals that are true, among which a reason is sought if there is no solution."""
        self._assumptions.extend(literals)

    def text(self) -> str:
        """The whole model."""
        parts = [*self._variables, *self._constraints, self._objective]
        if self._hint:
            values = ", ".join(map(str, self._hint.values()))
            parts.append(f"solution_hint {{ vars: [{', '.join(map(str, self._hint))}] values: [{values}] }}")
        if self._assumptions:
            parts.append(f"assumptions: [{', '.join(map(str, self._assumptions))}]")
        return "\n".join(parts)

    def _add(self, kind: str, literals: Iterable[Literal]) -> None:
        self._constraints.append(f"constraints {{ {kind} {{ literals: [{', '.join(map(str, literals))}] }} }}")
