"""Keys: who is connected by what, the API keys with their limits, and the tenants."""

import secrets
import time
from collections import Counter, OrderedDict
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, cast

import anyio.to_thread
import msgspec
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response

from pegboard.auth import ApiKey, ApiKeys, IssuedKey, KeyGrant
from pegboard.auth.key_record import grant_of_maker, maker_in
from pegboard.console.pages.board import seen_calls
from pegboard.console.request import PageRequest
from pegboard.model.principal import DEFAULT_TENANT, Principal
from pegboard.observe.call_entry import CallEntry, CallFilter

__all__ = ["IssuedKeys", "show"]

_RECENT = 1000
_MOST_UNSEEN = 32
_SCOPES = ("read", "call", "register", "admin")


class SeenClient(msgspec.Struct, frozen=True, kw_only=True):
    """A client as a page shows it."""

    subject: str
    name: str
    era: str
    version: str
    surface: str


class RecentClient(msgspec.Struct, frozen=True, kw_only=True):
    """A client that called not long ago."""

    caller: str
    client: str
    last: datetime
    calls: int


class IssuedKeys:
    """Secrets that were not shown yet; each is shown once, to the session that made it."""

    def __init__(self) -> None:
        self._unseen: OrderedDict[str, tuple[str, IssuedKey]] = OrderedDict()

    def keep(self, issued: IssuedKey, session: str) -> str:
        """Keep a secret until it is shown, and return what it is asked for by."""
        ticket = secrets.token_urlsafe(9)
        self._unseen[ticket] = session, issued
        while len(self._unseen) > _MOST_UNSEEN:
            self._unseen.popitem(last=False)
        return ticket

    def take(self, ticket: str, session: str) -> IssuedKey | None:
        """Return a secret, once."""
        if self._unseen.get(ticket, ("", None))[0] != session:
            return None
        return self._unseen.pop(ticket)[1]


async def show(page: PageRequest) -> Response:
    """Show clients, keys and tenants; a form that was sent changes a key."""
    page.need("admin")
    keys = page.sources.keys
    if page.request.method == "POST":
        return await _changed(page, keys)
    issued: IssuedKeys = page.request.app.state.issued
    listed = [] if keys is None else await anyio.to_thread.run_sync(partial(_listed, page, keys))
    calls = page.sources.calls
    wanted = partial(seen_calls, page, CallFilter(limit=_RECENT, tenant=page.principal.tenant))
    recent = [] if calls is None else await anyio.to_thread.run_sync(wanted)
    clients = page.sources.gateway.clients(page.principal.tenant)
    return await page.show(
        "keys.html",
        keys=None if keys is None else listed,
        now=time.time(),
        heirs=_heirs(listed),
        own=[it.id for it in listed if _rotates(page, it, listed)],
        connected=[
            SeenClient(
                subject=it.principal.subject,
                name=" ".join(str(it.info.get(part, "")) for part in ("name", "version"))[:100],
                era=it.era,
                version=it.version,
                surface=it.face.surface,
            )
            for it in clients
        ],
        recent=_recent(recent),
        is_kept=calls is not None,
        tenants=_tenants(page, listed),
        issued=issued.take(page.asked("shown"), page.session.csrf),
        asks_for_keys=page.sources.asks_for_keys,
        is_owner=page.session.is_owner,
        scopes=_SCOPES,
    )


async def _changed(page: PageRequest, keys: ApiKeys | None) -> Response:
    form = await page.form()
    if keys is None:
        raise HTTPException(400, "This gateway has no store, so it keeps no keys.")
    action, key = str(form.get("action", "")), str(form.get("key", ""))
    try:
        found = await anyio.to_thread.run_sync(partial(_done, page, keys, action, key, form))
    except ValueError as error:
        raise HTTPException(400, str(error)) from error
    page.note(f"keys.{action}", key if found is None else found.key.id)
    where = page.request.url_for("keys").path
    if found is not None:
        issued: IssuedKeys = page.request.app.state.issued
        where += f"?shown={issued.keep(found, page.session.csrf)}"
    return RedirectResponse(where, 303)


def _done(
    page: PageRequest, keys: ApiKeys, action: str, key: str, form: FormData
) -> IssuedKey | None:
    """Change a key, and return it if it has a new secret."""
    if action == "create":
        grant = _grant_in(form, page.principal).checked()
        if page.session.is_owner:
            return keys.create(grant)
        grant = grant_of_maker(grant, page.principal).checked()
        return keys.create(grant, maker=page.principal.subject)
    listed = _listed(page, keys)
    found = next((it for it in listed if it.id == key), None)
    if found is None:
        raise HTTPException(404, "There is no key of this id that you may change.")
    if action == "revoke":
        keys.revoke(key)
        return None
    if action != "rotate":
        raise HTTPException(400, "There is no such action.")
    if not _rotates(page, found, listed):
        raise HTTPException(403, "You rotate only your own key and those that it made.")
    return keys.rotate(key, overlap=_number(form, "overlap_hours", 0) * 3600)


def _listed(page: PageRequest, keys: ApiKeys) -> list[ApiKey]:
    """Return the keys that a person may change: all for the owner, otherwise of the tenant."""
    return keys.list(tenant=None if page.session.is_owner else page.principal.tenant)


def _rotates(page: PageRequest, key: ApiKey, listed: list[ApiKey]) -> bool:
    """Tell whether a person may get a new secret of a key, which would outlive the session."""
    if page.session.is_owner:
        return True
    subject = page.principal.subject
    line = _line_of(key, {it.id: it for it in listed})
    return any(subject in (f"pb_{it.id}", it.maker) for it in line)


def _heirs(keys: list[ApiKey]) -> Counter[str]:
    """Return how many valid keys die with each key."""
    by_id = {it.id: it for it in keys}
    valid = (it for it in keys if it.revoked is None)
    return Counter(maker.id for it in valid for maker in _line_of(it, by_id)[1:])


def _line_of(key: ApiKey, by_id: Mapping[str, ApiKey]) -> list[ApiKey]:
    """Return a key, the key that made it, and so on."""
    line: list[ApiKey] = []
    at: ApiKey | None = key
    while at is not None and at not in line:
        line.append(at)
        at = by_id.get(maker_in(at) or "")
    return line


def _grant_in(form: FormData, principal: Principal) -> KeyGrant:
    def words(name: str) -> tuple[str, ...]:
        return tuple(str(form.get(name, "")).replace(",", " ").split()) or ("*",)

    days = _number(form, "days", 0)
    scopes = [it for it in form.getlist("scope") if isinstance(it, str)]
    expires = datetime.now(UTC) + timedelta(days=days) if days else None
    return KeyGrant(
        name=str(form.get("name", "")).strip(),
        tenant=str(form.get("tenant", "")).strip() or principal.tenant,
        scopes=cast("Any", tuple(scopes)),
        servers=words("servers"),
        tools=words("tools"),
        expires=None if expires is None else expires.timestamp(),
        calls_per_minute=_number(form, "calls_per_minute", 0) or None,
        concurrent_calls=_number(form, "concurrent_calls", 0) or None,
    )


def _number(form: FormData, name: str, otherwise: int) -> int:
    text = str(form.get(name, "")).strip()
    if not text:
        return otherwise
    if not (text.isascii() and text.isdecimal() and len(text) <= 6):
        raise ValueError(f"`{name}` is a whole number of at most six digits.")
    return int(text)


def _recent(calls: list[CallEntry]) -> list[RecentClient]:
    found: dict[tuple[str, str], RecentClient] = {}
    for it in calls:
        key = it.caller or "", it.client or ""
        before = found.get(key)
        found[key] = RecentClient(
            caller=key[0],
            client=key[1],
            last=it.started if before is None else max(before.last, it.started),
            calls=it.count + (0 if before is None else before.calls),
        )
    return sorted(found.values(), key=lambda it: it.last, reverse=True)


def _tenants(page: PageRequest, keys: list[ApiKey]) -> list[tuple[str, int, int]]:
    """Return the tenants that a person may see, with their keys and connected clients."""
    names = {page.principal.tenant}
    if page.session.is_owner:
        names |= {DEFAULT_TENANT, *page.sources.tenants, *(it.tenant for it in keys)}
    gateway = page.sources.gateway
    return [
        (it, sum(key.tenant == it for key in keys), len(gateway.clients(it)))
        for it in sorted(names)
    ]
