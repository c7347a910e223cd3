"""The registry: tools are registered, described and called here."""

from pegboard.registry.functions import FunctionTool, tool
from pegboard.registry.plan import StepResult, arun_plan, run_plan
from pegboard.registry.registry import Registry
from pegboard.registry.report import Registration, Rejection

__all__ = [
    "FunctionTool",
    "Registration",
    "Registry",
    "Rejection",
    "StepResult",
    "arun_plan",
    "run_plan",
    "tool",
]
