"""Clock: tells the time anywhere, and reckons with days."""

from datetime import UTC, date, datetime, timedelta
from typing import Annotated
from zoneinfo import ZoneInfo

from mcp.server import MCPServer
from pydantic import Field

server: MCPServer = MCPServer("clock")

Zone = Annotated[str, Field(description="an IANA time zone, such as Europe/Berlin or UTC")]
Day = Annotated[date, Field(description="a date, such as 2026-07-28")]


@server.tool()
def current_time(timezone: Zone = "UTC") -> str:
    """Tell the current date and time in a time zone."""
    return datetime.now(ZoneInfo(timezone)).isoformat(timespec="seconds")


@server.tool()
def convert_time(time: datetime, timezone: Zone) -> str:
    """Convert a date and time to another time zone; without an offset it is taken as UTC."""
    known = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    return known.astimezone(ZoneInfo(timezone)).isoformat(timespec="seconds")


@server.tool()
def days_between(first: Day, second: Day) -> int:
    """Count the days from one date to another."""
    return (second - first).days


@server.tool()
def add_days(day: Day, days: int) -> str:
    """Tell which date is so many days after another, or before it."""
    return (day + timedelta(days=days)).isoformat()


@server.tool()
def day_of_week(day: Day) -> str:
    """Tell which day of the week a date is."""
    return day.strftime("%A")


if __name__ == "__main__":
    server.run()
