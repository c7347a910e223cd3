"""Health: the version, the store, the limits, and what there is of tasks, skills and apps."""

import platform
from collections import Counter
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from time import time

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
        up=time() - sources.started,
        address=sources.address,
        storage=sources.storage,
        stalls=sources.stalls() if page.operates else {},
        extensions=await _extensions(page),
    )


async def _extensions(page: PageRequest) -> Mapping[str, int]:
    """Return how many tasks, skills and apps there are that a person may see."""
    found: Counter[str] = Counter()
    if page.may("call"):
        for task in await page.tenant.tasks.tasks.list_of(page.principal):
            found[f"tasks {task.status.value}"] += 1
    found["skills"] = len(page.tenant.skills.catalog.seen(page.visibility))
    found["tools of apps"] = sum(it.app_only for it in page.tenant.hub.registry.tools())
    return {name: number for name, number in found.items() if number}


def _versions() -> list[tuple[str, str | None]]:
    return [(it, _version(it)) for it in _PACKAGES]


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
