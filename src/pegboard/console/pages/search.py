"""Search: a playground that shows what a query finds, and why."""

from typing import TYPE_CHECKING

import anyio.to_thread
import msgspec
from starlette.responses import Response

from pegboard.console.request import PageRequest
from pegboard.errors import InvalidQueryError
from pegboard.search.searcher import SearchResponse

if TYPE_CHECKING:
    from pegboard.search.options import SearchOptions

__all__ = ["show"]

_LONGEST_QUERY = 2000
_LIMIT = 10


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """What one method finds."""

    method: str
    response: SearchResponse | None = None
    error: str = ""


async def show(page: PageRequest) -> Response:
    """Show the hits of a query, by each method that was chosen."""
    page.need("read")
    text = page.asked("q")[:_LONGEST_QUERY]
    engine = page.tenant.hub.registry.search_engine
    methods = await anyio.to_thread.run_sync(engine.methods)
    chosen = [it for it in page.request.query_params.getlist("method") if it in methods]
    if not chosen:
        chosen = [page.sources.gateway.options.search_method]
    tried = [await _tried(page, text, it) for it in chosen] if text.strip() else []
    return await page.show("search.html", text=text, methods=methods, chosen=chosen, tried=tried)


async def _tried(page: PageRequest, text: str, method: str) -> Tried:
    options: SearchOptions = {"method": method, "limit": _LIMIT, "explain": True}
    where = page.visibility.for_models().sees
    try:
        response = await page.tenant.hub.search(text, where=where, **options)
    except InvalidQueryError as error:
        return Tried(method=method, error=str(error))
    return Tried(method=method, response=response)
