"""Clock: tells the time anywhere, and reckons with days."""

from datetime import UTC, date, datetime, timedelta
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field

server: MCPServer = MCPServer("clock")

Zone = Annotated[str, Field(description="an IANA time zone, such as Europe/Berlin or UTC")]
Day = Annotated[date, Field(description="a date, such as 2026-07-28")]


@server.tool()
def current_time(timezone: Zone = "UTC") -> str:
    """Tell the current date and time in a time zone."""
    return datetime.now(_zone(timezone)).isoformat(timespec="seconds")


@server.tool()
def convert_time(time: datetime, timezone: Zone) -> str:
    """Convert a date and time to another time zone; without an offset it is taken as UTC."""
    known = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    return known.astimezone(_zone(timezone)).isoformat(timespec="seconds")


@server.tool()
def days_between(first: Day, second: Day) -> int:
    """Count the days from one date to another."""
    return (second - first).days


@server.tool()
def add_days(day: Day, days: int) -> str:
    """Tell which date is so many days after another, or before it."""
    try:
        return (day + timedelta(days=days)).isoformat()
    except OverflowError as error:
        raise ToolError("That date is outside of the years 1 to 9999.") from error


@server.tool()
def day_of_week(day: Day) -> str:
    """Tell which day of the week a date is."""
    return day.strftime("%A")


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ToolError(f"There is no time zone {name!r}; one is Europe/Berlin.") from error


if __name__ == "__main__":
    server.run()
