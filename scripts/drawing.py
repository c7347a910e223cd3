"""Boxes, lines and words as SVG, in the colours of the documentation."""

from collections.abc import Iterable
from html import escape

__all__ = ["arrow", "box", "label", "peg", "picture"]

_STYLE = """  <style>
    .paper { fill: #ffffff; stroke: #d3e0dc; }
    .box { fill: #f5f9f8; stroke: #0d5c4f; stroke-width: 1.2; }
    .board { fill: #e3f1ed; stroke: #0d5c4f; stroke-width: 1.6; }
    .core { fill: #0d5c4f; stroke: #0d5c4f; }
    .peg { fill: #b5730b; }
    .line { stroke: #0d5c4f; stroke-width: 1.5; fill: none; marker-end: url(#tip); }
    .name { font-weight: 600; fill: #0a2f29; }
    .light { font-weight: 600; fill: #ffffff; }
    .note { fill: #566b66; font-size: 11.5px; }
  </style>
  <defs>
    <marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8z" fill="#0d5c4f"/></marker>
  </defs>"""  # noqa: E501 - one element of SVG


def picture(width: int, height: int, *, title: str, parts: Iterable[str]) -> str:
    """Return a whole drawing."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{escape(title)}" font-family="system-ui, sans-serif" font-size="13.5">'
    )
    paper = (
        f'<rect class="paper" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="10"/>'
    )
    return "\n".join([head, _STYLE, *(f"  {it}" for it in (paper, *parts)), "</svg>", ""])


def box(place: tuple[int, int, int, int], *lines: str, kind: str = "box") -> str:
    """Return a rectangle (x, y, width, height) with a name in it, and notes below the name."""
    x, y, width, height = place
    drawn = f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="7"/>'
    top = y + height / 2 + 5 - 8.5 * (len(lines) - 1)
    name = "light" if kind == "core" else "name"
    words = [
        label((x + width / 2, top + 17 * row), text, kind=name if row == 0 else "note", middle=True)
        for row, text in enumerate(lines)
    ]
    return "".join([drawn, *words])


def label(
    place: tuple[float, float], text: str, *, kind: str = "note", middle: bool = False
) -> str:
    """Return words at a place."""
    anchor = ' text-anchor="middle"' if middle else ""
    return f'<text class="{kind}" x="{place[0]:g}" y="{place[1]:g}"{anchor}>{escape(text)}</text>'


def arrow(start: tuple[int, int], end: tuple[int, int]) -> str:
    """Return a line that ends in a tip, bent so that it leaves and arrives level."""
    middle = (start[0] + end[0]) // 2
    bend = f"C {middle} {start[1]} {middle} {end[1]} {end[0]} {end[1]}"
    return f'<path class="line" d="M{start[0]} {start[1]} {bend}"/>'


def peg(x: int, y: int) -> str:
    """Return a peg of the board."""
    return f'<circle class="peg" cx="{x}" cy="{y}" r="2.2"/>'
