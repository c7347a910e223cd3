"""Results: the images and sounds of results, apart from the pages, and without their cookie."""

from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

if TYPE_CHECKING:
    from pegboard.console.trials.result_media import ResultMedia

__all__ = ["show"]

_HEADERS = {
    # Whatever it is, it runs nothing, and belongs to no address.
    "content-security-policy": "sandbox; default-src 'none'",
    "content-disposition": "inline",
    "cross-origin-resource-policy": "same-origin",
}


async def show(request: Request) -> Response:
    """Return an image or a sound; its address is the secret, and lives for minutes."""
    media: ResultMedia = request.app.state.media
    found = media.find(request.path_params["key"])
    if found is None:
        return Response("This part of a result is gone.", status_code=404, headers=_HEADERS)
    return Response(found.data, media_type=found.mime_type, headers=_HEADERS)
