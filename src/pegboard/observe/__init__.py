"""Observers of calls: log, JSON lines, history in a store, audit log, OpenTelemetry spans."""

from pegboard.observe.audit import Audit, AuditRecord
from pegboard.observe.history import History
from pegboard.observe.json_lines import JsonLines, read_records
from pegboard.observe.log import CallLog
from pegboard.observe.otel import CallSpans
from pegboard.observe.usage_totals import DailyUsage

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
