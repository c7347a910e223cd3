"""Where call records go: the log, a file of JSON lines, a store, the audit, OpenTelemetry."""

from pegboard.observe.audit import Audit, AuditRecord
from pegboard.observe.daily_usage import DailyUsage
from pegboard.observe.history import History
from pegboard.observe.json_lines import JsonLines, read_records
from pegboard.observe.log import CallLog
from pegboard.observe.otel import CallSpans

__all__ = [
    "Audit",
    "AuditRecord",
    "CallLog",
    "CallSpans",
    "DailyUsage",
    "History",
    "JsonLines",
    "read_records",
]
