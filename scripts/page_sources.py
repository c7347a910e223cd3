"""Give each page of the documentation a link to the text that it was made from."""

import shutil
from pathlib import Path
from typing import Any

__all__ = ["on_page_context", "on_post_build"]

_FOLDER = "sources"


def on_page_context(context: dict[str, Any], *, page: Any, **_: object) -> dict[str, Any]:
    """Point the button "View source of this page" at the copy of its text."""
    up = "../" * page.url.count("/")
    page.edit_url = f"{up or './'}{_FOLDER}/{page.file.src_uri}"
    return context


def on_post_build(config: Any) -> None:
    """Copy the texts into the site."""
    texts, site = Path(config.docs_dir), Path(config.site_dir)
    for text in texts.rglob("*.md"):
        copy = site / _FOLDER / text.relative_to(texts)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(text, copy)
