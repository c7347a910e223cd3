from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.hosted import hosted_notes


@pytest.fixture(autouse=True)
def no_blocking_calls() -> None:
    """Pages are read, imported and run here as a reader would: blocking is no fault."""


@pytest.fixture(autouse=True)
def _hosted_server(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Run the server that a page about a hosted server talks to."""
    params = getattr(getattr(request.node, "callspec", None), "params", {})
    page = params.get("page")
    if not isinstance(page, Path) or page.name != "hosted-servers.md":
        yield
        return
    for variable in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(variable, raising=False)
    with hosted_notes(tmp_path) as environment:
        for variable, value in environment.items():
            monkeypatch.setenv(variable, value)
        yield
