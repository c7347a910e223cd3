"""Search: a playground that shows what a query finds, and why it does not find a tool."""

from hashlib import sha256

import anyio.to_thread
import msgspec
from starlette.responses import Response

from pegboard.console.request import PageRequest
from pegboard.errors import InvalidQueryError
from pegboard.model import Tool
from pegboard.search.options import SearchOptions
from pegboard.search.searcher import Hit, SearchResponse

__all__ = ["export_tools", "show"]

_LONGEST_QUERY = 2000
_LIMIT = 10
_DEEP = 1000
"""How far down a tool is looked for that is not among the first."""


class TriedMethod(msgspec.Struct, frozen=True, kw_only=True):
    """What one method finds, and where the tool is that was expected."""

    method: str
    response: SearchResponse | None = None
    error: str = ""
    rank: int | None = None
    """The place of the expected tool; ``None`` if it is not found at all."""
    expected: Hit | None = None
    is_withheld: bool = False
    """Whether the expected tool would be found, but the method judges that no tool fits."""


async def show(page: PageRequest) -> Response:
    """Show the hits of a query, by each method that was chosen."""
    page.need("read")
    text, expected = page.asked("q")[:_LONGEST_QUERY], page.asked("tool")[:_LONGEST_QUERY].strip()
    engine = page.tenant.hub.registry.search_engine
    methods = await anyio.to_thread.run_sync(engine.methods)
    wanted = page.request.query_params.getlist("method")
    chosen = [it for it in methods if it in wanted]
    if not chosen:
        chosen = [page.sources.gateway.options.search_method]
    known = page.tenant.shown(expected, page.visibility.for_models()) if expected else None
    tried = [await _tried(page, text, it, known) for it in chosen] if text.strip() else []
    return await page.show(
        "search.html",
        text=text,
        expected=expected,
        is_known=known is not None,
        methods=methods,
        chosen=chosen,
        tried=tried,
        case=_case(text, known) if text.strip() and known is not None else "",
    )


async def export_tools(page: PageRequest) -> Response:
    """Return the tools that a person may see, as `pegboard eval search` reads them."""
    page.need("read")

    def lines() -> bytes:
        seen = page.tenant.tools.seen(page.visibility.for_models())
        return msgspec.json.Encoder().encode_lines(
            {
                "id": it.name,
                "name": it.name,
                "description": it.description,
                "server": it.server or "",
                "input_schema": it.input_schema,
                "tags": it.tags,
            }
            for it in seen
        )

    body = await anyio.to_thread.run_sync(lines)
    headers = {"content-disposition": 'attachment; filename="tools.jsonl"'}
    return Response(body, media_type="application/jsonl", headers=headers)


async def _tried(page: PageRequest, text: str, method: str, expected: Tool | None) -> TriedMethod:
    try:
        response = await _found(page, text, {"method": method, "limit": _LIMIT, "explain": True})
        if expected is None:
            return TriedMethod(method=method, response=response)
        deep: SearchOptions = {"method": method, "limit": _DEEP, "explain": True, "abstain": False}
        every = (await _found(page, text, deep)).hits
    except InvalidQueryError as error:
        return TriedMethod(method=method, error=str(error))
    places = {it.tool.name: place for place, it in enumerate(every)}
    place = places.get(expected.name)
    return TriedMethod(
        method=method,
        response=response,
        rank=None if place is None else place + 1,
        expected=None if place is None else every[place],
        is_withheld=place is not None and not response.hits,
    )


async def _found(page: PageRequest, text: str, options: SearchOptions) -> SearchResponse:
    where = page.visibility.for_models().sees
    return await page.tenant.hub.search(text, where=where, **options)


def _case(text: str, expected: Tool) -> str:
    """Return the query as a line of the file that `pegboard eval search` reads."""
    name = sha256(text.encode("utf-8", "replace")).hexdigest()[:12]
    case = {"id": name, "query": text, "relevant": [expected.name]}
    return msgspec.json.encode(case).decode()
