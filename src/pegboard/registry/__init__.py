"""The registry: register tools, describe them and call them.

Names are imported when they are first used: a program that asks only where the index of a store
lies does not import what makes tools of functions.
"""

from typing import TYPE_CHECKING

from pegboard.lazy_names import Listing, Lookup, lazy_names
from pegboard.model.tool_names import OnConflict

if TYPE_CHECKING:
    from pegboard.registry.batch import Registration, Rejection
    from pegboard.registry.candidate import BoundTool
    from pegboard.registry.catalog import Subscriber
    from pegboard.registry.functions.functions import FunctionTool, tool
    from pegboard.registry.plan import StepResult, arun_plan, run_plan
    from pegboard.registry.registry import Registry

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

_HOMES = {
    "BoundTool": "candidate",
    "FunctionTool": "functions.functions",
    "Registration": "batch",
    "Registry": "registry",
    "Rejection": "batch",
    "StepResult": "plan",
    "Subscriber": "catalog",
    "arun_plan": "plan",
    "run_plan": "plan",
    "tool": "functions.functions",
}

__getattr__: Lookup
__dir__: Listing
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
