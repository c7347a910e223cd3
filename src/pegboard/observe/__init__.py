"""Where call records go: the log, a file of JSON lines, OpenTelemetry."""

from pegboard.observe.json_lines import JsonLines, read_records
from pegboard.observe.log import CallLog
from pegboard.observe.otel import CallSpans

__all__ = ["CallLog", "CallSpans", "JsonLines", "read_records"]
