"""The registry: tools are registered, described and called here."""

from pegboard.model.naming import OnConflict
from pegboard.registry.candidate import BoundTool
from pegboard.registry.catalog import Subscriber
from pegboard.registry.functions import FunctionTool, tool
from pegboard.registry.plan import StepResult, arun_plan, run_plan
from pegboard.registry.registry import Registry
from pegboard.registry.report import Registration, Rejection

__all__ = [
    "BoundTool",
    "FunctionTool",
    "OnConflict",
    "Registration",
    "Registry",
    "Rejection",
    "StepResult",
    "Subscriber",
    "arun_plan",
    "run_plan",
    "tool",
]
