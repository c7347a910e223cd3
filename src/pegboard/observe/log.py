"""CallLog: an observer that writes one structured log record per call."""

import logging

import msgspec

from pegboard.model import CallRecord

__all__ = ["CallLog"]


class CallLog:
    """An observer that writes to a standard logger, by default ``pegboard.calls``.

    The message is for people. The fields are under ``call`` in the log record, for handlers that
    write JSON. Successful calls are logged at ``level``, all others as warnings.
    """

    def __init__(self, logger: logging.Logger | None = None, *, level: int = logging.INFO) -> None:
        self._logger = logger or logging.getLogger("pegboard.observe")
        self._level = level

    def __call__(self, record: CallRecord, /) -> None:
        """Log one call."""
        level = self._level if record.outcome == "ok" else logging.WARNING
        if self._logger.isEnabledFor(level):
            fields = msgspec.to_builtins(record, enc_hook=repr)
            self._logger.log(level, "tool_call %s", _Readable(record), extra={"call": fields})


class _Readable:
    """Formats a record only when a handler asks for it."""

    def __init__(self, record: CallRecord) -> None:
        self._record = record

    def __str__(self) -> str:
        record = self._record
        words = [f"tool={record.tool}", f"outcome={record.outcome}"]
        if record.error_code is not None:
            words.append(f"error={record.error_code}")
        words += [f"ms={record.duration * 1000:.3f}", f"attempts={record.attempts}"]
        return " ".join(words)
