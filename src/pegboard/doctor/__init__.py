"""Doctor: what is wrong with a configuration and its servers, and what to do about it.

Names are imported when they are first used: what is remembered can be told without the MCP SDK.
"""

from typing import TYPE_CHECKING

from pegboard.lazy_names import Listing, Lookup, lazy_names

if TYPE_CHECKING:
    from pegboard.doctor.codes import CODES, Code, Severity
    from pegboard.doctor.diagnosis import OnCheckup, diagnose
    from pegboard.doctor.finding import Finding
    from pegboard.doctor.report import Checkup, Report, Stage
    from pegboard.doctor.standing import Standing, remembered_standing
    from pegboard.doctor.visit import Limits

__all__ = [
    "CODES",
    "Checkup",
    "Code",
    "Finding",
    "Limits",
    "OnCheckup",
    "Report",
    "Severity",
    "Stage",
    "Standing",
    "diagnose",
    "remembered_standing",
]

_HOMES = {
    "CODES": "codes",
    "Checkup": "report",
    "Code": "codes",
    "Finding": "finding",
    "Limits": "visit",
    "OnCheckup": "diagnosis",
    "Report": "report",
    "Severity": "codes",
    "Stage": "report",
    "Standing": "standing",
    "diagnose": "diagnosis",
    "remembered_standing": "standing",
}

__getattr__: Lookup
__dir__: Listing
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
