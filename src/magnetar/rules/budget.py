"""How many steps a decision about outside input may take."""

from __future__ import annotations


class StepsExhausted(Exception):
    """The decision needs more steps than it was given; its owner turns this into a refusal."""


class StepBudget:
    """One for a whole decision, however many parts it has: when it is spent, the decision ends."""

    def __init__(self, steps_max: int) -> None:
        self.steps_max = steps_max
        self.spent = 0

    def spend(self, steps: int = 1) -> None:
        self.spent += steps
        if self.spent > self.steps_max:
            raise StepsExhausted
