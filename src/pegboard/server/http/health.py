"""Health: whether the process lives, and whether it wants requests."""

from pegboard.server.http.request import HttpRequest
from pegboard.server.request_pipeline import RequestPipeline

__all__ = ["Health"]


class Health:
    """Answers to whoever watches over the process: a load balancer, an orchestrator."""

    def __init__(self, desk: RequestPipeline) -> None:
        self._desk = desk
        self.is_stopping = False
        """Set first of all when the process is to end, so that nobody new is sent here."""

    @property
    def is_ready(self) -> bool:
        """Whether requests are wanted."""
        return self._desk.is_ready and not self.is_stopping

    async def respond(self, request: HttpRequest) -> bool:
        """Answer a question after our health; return false if it is none."""
        match request.scope["path"]:
            case "/healthz":
                await _say(request, 200, "ok")
            case "/readyz" if self.is_ready:
                await _say(request, 200, "ready")
            case "/readyz":
                await _say(request, 503, "stopping" if self.is_stopping else "not ready")
            case _:
                return False
        return True


async def _say(request: HttpRequest, status: int, word: str) -> None:
    if request.method not in ("GET", "HEAD"):
        await request.respond(405, headers=[(b"allow", b"GET, HEAD")])
        return
    body = b"" if request.method == "HEAD" else word.encode() + b"\n"
    headers = [(b"cache-control", b"no-store")]
    await request.respond(status, body, kind=b"text/plain; charset=utf-8", headers=headers)
