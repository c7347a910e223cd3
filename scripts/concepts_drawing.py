"""The drawing of the concepts: what holds what, and who asks whom."""

from scripts.drawing import arrow, box, label, picture

__all__ = ["page"]


def page() -> str:
    """Return the drawing."""
    parts = [
        box((20, 40, 150, 62), "client", "or command line"),
        box((20, 240, 150, 62), "your program", "Python"),
        box(
            (232, 22, 190, 98),
            "gateway",
            "surface: search or full",
            "key: principal, tenant",
            "result cache: long results",
        ),
        box((232, 240, 190, 62), "toolset", "a view, for one model"),
        box((484, 22, 390, 300), kind="board"),
        label((504, 46), "hub", kind="name"),
        label((536, 46), "puts them together", kind="note"),
        box((504, 62, 176, 116), "registry", "every tool by name", "policies around", "each call"),
        box((504, 204, 176, 48), "search", "words and meaning"),
        box((504, 262, 176, 48), "store", "what must last"),
        box((716, 62, 142, 56), "server", "a process"),
        box((716, 132, 142, 56), "server", "an address"),
        box((716, 202, 142, 56), "your function"),
        arrow((170, 71), (230, 71)),
        arrow((170, 271), (230, 271)),
        arrow((422, 71), (502, 100)),
        arrow((422, 271), (502, 150)),
        arrow((680, 100), (714, 90)),
        arrow((680, 120), (714, 160)),
        arrow((680, 140), (714, 230)),
    ]
    title = "Client, gateway, toolset, hub, registry, search, store and servers"
    return picture(894, 344, title=title, parts=parts)
