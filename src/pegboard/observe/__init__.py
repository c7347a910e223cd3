"""Where call records go: the log, a file of JSON lines, a store, OpenTelemetry."""

from pegboard.observe.history import History
from pegboard.observe.json_lines import JsonLines, read_records
from pegboard.observe.log import CallLog
from pegboard.observe.otel import CallSpans

__all__ = ["CallLog", "CallSpans", "History", "JsonLines", "read_records"]
