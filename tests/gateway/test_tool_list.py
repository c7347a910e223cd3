"""The list of all tools by name, page by page."""

from pegboard import Registry, Tool
from pegboard.gateway.catalog.tool_list import ToolList
from pegboard.gateway.visibility import Visibility
from pegboard.model.principal import LOCAL


def test_ten_thousand_tools_are_listed_in_the_order_of_their_names() -> None:
    names = [f"tool_{number * 7919 % 10_007}" for number in range(10_000)]
    registry = Registry()
    registry.register_many(Tool(name=name) for name in names)
    tools = ToolList(registry, lambda _: None)
    listed: list[object] = []
    cursor: str | None = None
    while True:
        page, cursor = tools.page(Visibility(LOCAL), cursor, 3_000)
        listed += [it["name"] for it in page]
        if cursor is None:
            break
    assert listed == sorted(names)
