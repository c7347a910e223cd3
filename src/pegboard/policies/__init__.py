"""Policies around a call: telemetry, access, validation, deadline, retry, concurrency."""

from pegboard.policies.access import (
    Access,
    holds,
    may,
    may_operate,
    may_use_server,
    visible_to,
)
from pegboard.policies.chain import ORDER, PolicyOptions, check_options, needs_loop, wrap_step
from pegboard.policies.concurrency import Concurrency
from pegboard.policies.deadline import Deadline
from pegboard.policies.policy import Policy, Target
from pegboard.policies.retry import Retry
from pegboard.policies.telemetry import Observer, Telemetry, Tracer
from pegboard.policies.validation import Validation

__all__ = [
    "ORDER",
    "Access",
    "Concurrency",
    "Deadline",
    "Observer",
    "Policy",
    "PolicyOptions",
    "Retry",
    "Target",
    "Telemetry",
    "Tracer",
    "Validation",
    "check_options",
    "holds",
    "may",
    "may_operate",
    "may_use_server",
    "needs_loop",
    "visible_to",
    "wrap_step",
]
