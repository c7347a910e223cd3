from pathlib import Path

import pytest

from tests.tls import Authority
from tests.upstream.hosted import Host


@pytest.fixture
def authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Authority:
    """An authority that this machine trusts."""
    authority = Authority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.ca))
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    return authority


@pytest.fixture(params=["http", "https"])
def host(request: pytest.FixtureRequest, authority: Authority) -> Host:
    """Starts servers over plain HTTP, and in a second run over HTTPS."""
    return Host(authority, is_secure=request.param == "https")


@pytest.fixture
def secure_host(authority: Authority) -> Host:
    """Starts servers over HTTPS only."""
    return Host(authority, is_secure=True)
