"""Health: the version, the store, and what is used up of each limit."""

import platform
from importlib.metadata import PackageNotFoundError, version

import anyio.to_thread
from starlette.responses import Response

from pegboard.console.request import PageRequest
from pegboard.version import installed_version

__all__ = ["show"]

_PACKAGES = ("mcp", "aiohttp", "uvicorn", "anyio", "starlette")


async def show(page: PageRequest) -> Response:
    """Show the state of the gateway; the limits are for operators."""
    page.need("read")
    sources = page.sources
    return await page.show(
        "health.html",
        version=await anyio.to_thread.run_sync(installed_version),
        python=platform.python_version(),
        packages=await anyio.to_thread.run_sync(_versions),
        limits=sources.limits() if page.operates else None,
        is_ready=sources.gateway.is_ready,
        busy=sources.gateway.busy,
        address=sources.address,
        storage=sources.storage,
        is_kept=sources.calls is not None,
    )


def _versions() -> list[tuple[str, str | None]]:
    return [(it, _version(it)) for it in _PACKAGES]


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
