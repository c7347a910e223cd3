"""Health checks: ``/healthz`` for liveness and ``/readyz`` for readiness."""

from pegboard.server.http.request import HttpRequest
from pegboard.server.request_pipeline import RequestPipeline

__all__ = ["HEALTH_PATHS", "Health"]

HEALTH_PATHS = ("/healthz", "/readyz")


class Health:
    """Responds to the health checks of a load balancer or an orchestrator."""

    def __init__(self, pipeline: RequestPipeline) -> None:
        self._pipeline = pipeline
        self.is_stopping = False
        """Set first at shutdown, so that a load balancer sends no new requests here."""

    @property
    def is_ready(self) -> bool:
        """Whether new requests are welcome."""
        return self._pipeline.is_ready and not self.is_stopping

    async def respond(self, request: HttpRequest) -> None:
        """Respond to a request for one of the `HEALTH_PATHS`."""
        if request.scope["path"] == "/healthz":
            await _say(request, 200, "ok")
        elif self.is_ready:
            await _say(request, 200, "ready")
        else:
            await _say(request, 503, "stopping" if self.is_stopping else "not ready")


async def _say(request: HttpRequest, status: int, word: str) -> None:
    if request.method not in ("GET", "HEAD"):
        await request.respond(405, headers=[(b"allow", b"GET, HEAD")])
        return
    body = b"" if request.method == "HEAD" else word.encode() + b"\n"
    headers = [(b"cache-control", b"no-store")]
    await request.respond(status, body, kind=b"text/plain; charset=utf-8", headers=headers)
