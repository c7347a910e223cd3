"""At the end of a run, one line for each system that was compared."""

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    lines = [
        value
        for reports in terminalreporter.stats.values()
        for report in reports
        for name, value in getattr(report, "user_properties", ())
        if name == "compared" and getattr(report, "when", "") == "call"
    ]
    if lines:
        terminalreporter.section("compared with the systems themselves")
        for line in sorted(lines):
            terminalreporter.write_line(str(line))
