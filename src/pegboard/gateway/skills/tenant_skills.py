"""TenantSkills: the skills of one tenant: its lists, its catalogue, and what clients can ask."""

import logging
from collections.abc import Callable, Sequence
from time import monotonic

from anyio.abc import TaskGroup

from pegboard.gateway.resource_uris import ResourceUris
from pegboard.gateway.skills.catalog import ShownSkill, SkillCatalog
from pegboard.gateway.skills.fallback import SkillFallback
from pegboard.gateway.skills.listings import SkillListings
from pegboard.gateway.skills.methods import SkillMethods
from pegboard.gateway.skills.reading import SkillReader
from pegboard.hub import Hub
from pegboard.upstream import ResourcesChanged, ServerEvent, ServerUp

__all__ = ["TenantSkills"]

logger: logging.Logger = logging.getLogger("pegboard.gateway")

_QUIET = 1.0


class TenantSkills:
    """Everything about the skills of one tenant.

    Args:
        hub: its servers and its configuration have the skills.
        group: runs the tasks that list them.
        uris: the URIs of resources in the gateway.
        seconds: how long a list waits for a server.
        ttl_ms: how long a list counts as current, at most.
        on_change: called with the skills that are new, changed or gone.
    """

    def __init__(
        self,
        hub: Hub,
        group: TaskGroup,
        uris: ResourceUris,
        *,
        seconds: float,
        ttl_ms: int,
        on_change: Callable[[Sequence[ShownSkill]], None],
    ) -> None:
        self.quiet_until: float = 0.0
        """Until then `learn` would do nothing. Searches come often, and looking at every server
        takes longer than a search."""
        self.catalog: SkillCatalog = SkillCatalog(hub, uris)
        self._on_change = on_change
        self._listings = SkillListings(
            hub, group, seconds=seconds, ttl_ms=ttl_ms, on_change=self._changed
        )
        self.catalog.follow(self._listings)
        self._stop = hub.on_change(self._take_in)
        self.reader: SkillReader = SkillReader(hub, self._listings, self.catalog)
        self.methods: SkillMethods = SkillMethods(
            hub, self._listings, self.catalog, uris, ttl_ms=ttl_ms
        )
        self._group = group
        if self.methods.are_offered:
            self._learn_soon()
        self.fallback: SkillFallback = SkillFallback(hub, self._listings, self.catalog, self.reader)

    async def learn(self) -> None:
        """Wait, but not long, for the skills of servers that are up and were never asked.

        Other lists that are due are asked for in the background.
        """
        if await self._listings.current(wakes=False):
            self.quiet_until = monotonic() + _QUIET

    async def list_all(self) -> None:
        """Wait, but not long, for the skills of all servers; those that sleep are woken."""
        await self._listings.current()

    def close(self) -> None:
        """Stop following the servers."""
        self._stop()
        self.catalog.close()

    def _take_in(self, event: ServerEvent) -> None:
        if isinstance(event, ServerUp | ResourcesChanged):
            self._listings.take_in(event)
            self.quiet_until = 0.0
            if self._listings.offers(event.server):
                self._learn_soon()

    def _learn_soon(self) -> None:
        """List skills before a search needs them; no file is read for it."""
        try:
            self._group.start_soon(self.learn)
        except RuntimeError:
            # The gateway is closed, and the hub closes soon.
            logger.debug("group_is_gone")

    def _changed(self) -> None:
        changed = self.catalog.changed()
        # Also of the first list: a client may have listed tools before the server was up.
        if changed:
            self._on_change(changed)
