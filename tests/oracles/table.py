"""Where a system's scenarios stand, with what was read of it where there is no package to ask.

This file runs in the environments of other projects, too: it imports only the standard library.
"""

from typing import Any, TypeVar

from tests.oracles.outcomes import Scenario, told

AnyScenario = TypeVar("AnyScenario", bound=Scenario)


class Table:
    """Scenarios in the order in which they are written."""

    def __init__(self) -> None:
        self.scenarios: dict[str, Scenario] = {}
        self.expected: dict[str, Any] = {}

    def scenario(self, action: AnyScenario) -> AnyScenario:
        """Take a scenario whose outcome the real package tells."""
        if action.__name__ in self.scenarios:
            raise ValueError(f"There are two scenarios named {action.__name__}.")
        self.scenarios[action.__name__] = action
        return action

    def expects(self, outcome: Any) -> Any:
        """Take a scenario whose outcome was read in the code of a system that is no package."""

        def take(action: AnyScenario) -> AnyScenario:
            self.expected[action.__name__] = told(outcome)
            return self.scenario(action)

        return take
