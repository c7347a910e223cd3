"""The doctor: find what is wrong with a configuration and its servers, and name the remedy.

Names are imported when they are first used: the cached status is told without the MCP SDK.
"""

from typing import TYPE_CHECKING

from pegboard.lazy_names import Listing, Lookup, lazy_names

if TYPE_CHECKING:
    from pegboard.doctor.diagnosis import OnCheckup, diagnose
    from pegboard.doctor.probes.probe import ProbeLimits
    from pegboard.doctor.report import CODES, Checkup, CheckupState, Code, Finding, Report, Severity
    from pegboard.doctor.status import KnownStatus, cached_status

__all__ = [
    "CODES",
    "Checkup",
    "CheckupState",
    "Code",
    "Finding",
    "KnownStatus",
    "OnCheckup",
    "ProbeLimits",
    "Report",
    "Severity",
    "cached_status",
    "diagnose",
]

_HOMES = {
    "CODES": "report",
    "Checkup": "report",
    "CheckupState": "report",
    "Code": "report",
    "Finding": "report",
    "ProbeLimits": "probes.probe",
    "OnCheckup": "diagnosis",
    "Report": "report",
    "Severity": "report",
    "KnownStatus": "status",
    "diagnose": "diagnosis",
    "cached_status": "status",
}

__getattr__: Lookup
__dir__: Listing
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
