"""Clients of both eras without a wire: what they send goes straight to a gateway."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio

from pegboard.gateway import Client, ClientRequest, Face, Gateway, RpcError
from pegboard.model.principal import LOCAL, Principal
from pegboard.upstream import Era

Answers = Callable[[str, Mapping[str, Any]], Awaitable[dict[str, Any]] | dict[str, Any]]
FULL = Face(surface="full")


class Wire:
    """A channel that keeps what is sent, and calls the given function when it is asked."""

    def __init__(self, answers: Answers | None = None) -> None:
        self.sent: list[tuple[str, Mapping[str, Any]]] = []
        self.asked: list[tuple[str, Mapping[str, Any]]] = []
        self._answers = answers
        self._arrived = anyio.Event()

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        self.sent.append((method, params))
        self._arrived.set()

    can_ask = True

    async def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        self.asked.append((method, params))
        if self._answers is None:
            raise RpcError(-32601, "No client is here.")
        response = self._answers(method, params)
        return response if isinstance(response, dict) else await response

    async def next(self, method: str) -> Mapping[str, Any]:
        """Wait for a notification, and take it away."""
        with anyio.fail_after(5):
            while True:
                for index, (name, params) in enumerate(self.sent):
                    if name == method:
                        del self.sent[index]
                        return params
                self._arrived = anyio.Event()
                await self._arrived.wait()


class Caller:
    """A client of one era, with what it can do and who it is."""

    def __init__(
        self,
        gateway: Gateway,
        era: Era = "modern",
        *,
        face: Face | None = None,
        principal: Principal = LOCAL,
        session: str = "s1",
        version: str | None = None,
        answers: Answers | None = None,
        tasks: bool = False,
        **capabilities: Any,
    ) -> None:
        self.gateway = gateway
        self.wire = Wire(answers)
        self.client = Client(
            principal=principal,
            era=era,
            version=version or ("2026-07-28" if era == "modern" else "2025-11-25"),
            face=face or Face(),
            capabilities=capabilities,
            session=session if era == "legacy" else "",
            tasks=tasks,
        )

    def exchange(self, method: str, /, **params: Any) -> ClientRequest:
        return ClientRequest(
            method=method, params=params, client=self.client, channel=self.wire, id=7
        )

    async def send(self, method: str, /, **params: Any) -> dict[str, Any]:
        return await self.gateway.respond(self.exchange(method, **params))

    async def call(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        return await self.send("tools/call", name=name, arguments=arguments)

    async def names(self) -> list[str]:
        """Return the names of all tools, over all pages."""
        names: list[str] = []
        cursor: dict[str, Any] = {}
        while True:
            page = await self.send("tools/list", **cursor)
            names += [tool["name"] for tool in page["tools"]]
            if "nextCursor" not in page:
                return names
            cursor = {"cursor": page["nextCursor"]}


def text_of(result: Mapping[str, Any]) -> str:
    """Return the texts of a result, one a line."""
    return "\n".join(block["text"] for block in result["content"] if block["type"] == "text")
