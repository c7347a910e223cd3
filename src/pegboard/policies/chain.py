"""The order in which policies wrap a tool, and the options that name them."""

from typing import TYPE_CHECKING, TypedDict, cast

from pegboard.model import Step
from pegboard.policies.access import Access
from pegboard.policies.concurrency import Concurrency
from pegboard.policies.deadline import Deadline
from pegboard.policies.policy import Policy, Target
from pegboard.policies.retry import Retry
from pegboard.policies.telemetry import Telemetry
from pegboard.policies.validation import Validation

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ORDER", "PolicyOptions", "check_options", "needs_loop", "wrap_step"]

ORDER = ("telemetry", "access", "validation", "deadline", "retry", "concurrency")
"""Outermost first. Telemetry also records refusals. A refused caller learns nothing of the schema.
The deadline covers all retries and the wait for a slot. Each attempt takes a slot of its own."""


class PolicyOptions(TypedDict, total=False):
    """Policies by name, for a registry or for one tool; ``None`` switches one off."""

    telemetry: Telemetry | None
    access: Access | None
    validation: Validation | None
    deadline: Deadline | None
    retry: Retry | None
    concurrency: Concurrency | None


_KINDS: dict[str, type] = {
    "telemetry": Telemetry,
    "access": Access,
    "validation": Validation,
    "deadline": Deadline,
    "retry": Retry,
    "concurrency": Concurrency,
}


def check_options(options: PolicyOptions) -> None:
    """Refuse options that are no policies, or that have the name of another policy.

    Raises:
        TypeError: when one is; the message names the option and what it takes.
    """
    for name, policy in options.items():
        if name not in _KINDS:
            raise TypeError(f"Unknown option {name!r}; policies are {', '.join(ORDER)}.")
        if policy is not None and not isinstance(policy, _KINDS[name]):
            kind = _KINDS[name].__name__
            raise TypeError(f"`{name}` takes an object of type {kind}, not {policy!r}.")


def wrap_step(step: Step, target: Target, policies: PolicyOptions) -> Step:
    """Wrap a step with the given policies, in the fixed order."""
    for policy in _present(policies)[::-1]:
        step = policy.wrap(step, target)
    return step


def needs_loop(policies: PolicyOptions) -> bool:
    """Tell whether one of the policies can wait."""
    return any(policy.needs_loop for policy in _present(policies))


def _present(policies: PolicyOptions) -> list[Policy]:
    by_name = cast("Mapping[str, Policy | None]", policies)
    return [policy for name in ORDER if (policy := by_name.get(name)) is not None]
