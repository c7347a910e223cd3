"""Token storages: private, never torn, and no worse than a new login when damaged."""

import json
import stat
import sys
from pathlib import Path
from types import ModuleType

import anyio
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)

from pegboard.config.servers import OAuthConfig
from pegboard.errors import ConfigError
from pegboard.upstream.oauth.token_storage import (
    FileTokenStorage,
    KeyringTokenStorage,
    Login,
    LoginStorage,
    SdkStorage,
    token_key,
    token_storage_for,
)
from tests.upstream.http_servers import config_for
from tests.upstream.oauth_servers import ForeignStorage

TOKENS = OAuthToken(access_token="very-secret", refresh_token="more-secret", expires_in=60)
CLIENT = OAuthClientInformationFull(client_id="ours", client_secret="our-secret")
RESOURCE = ProtectedResourceMetadata.model_validate(
    {"resource": "https://a.example/mcp", "authorization_servers": ["https://b.example"]}
)
SERVER = OAuthMetadata.model_validate(
    {
        "issuer": "https://b.example",
        "authorization_endpoint": "https://b.example/authorize",
        "token_endpoint": "https://b.example/token",
    }
)

LOGIN = Login(client=CLIENT, resource=RESOURCE, authorization_server=SERVER).with_tokens(TOKENS)


def entries(folder: Path) -> list[str]:
    return [entry.name for entry in folder.iterdir()]


class FakeKeyring(ModuleType):
    """The two functions of `keyring` that are used, in memory."""

    def __init__(self) -> None:
        super().__init__("keyring")
        self.kept: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, name: str) -> str | None:
        return self.kept.get((service, name))

    def set_password(self, service: str, name: str, password: str) -> None:
        self.kept[service, name] = password


@pytest.fixture(params=["file", "keyring"])
def storage(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> LoginStorage:
    if request.param == "file":
        return FileTokenStorage(tmp_path / "tokens" / "a.json")
    monkeypatch.setitem(sys.modules, "keyring", FakeKeyring())
    return KeyringTokenStorage("a")


async def test_what_is_kept_is_found_again(storage: LoginStorage) -> None:
    assert await storage.get_login() == Login()
    await storage.set_login(LOGIN)
    assert await storage.get_login() == LOGIN
    assert (LOGIN.expires_at or 0) > 0


async def test_forgetting_the_tokens_keeps_the_registration(storage: LoginStorage) -> None:
    await storage.set_login(LOGIN.with_tokens(None))
    login = await storage.get_login()
    assert (login.tokens, login.expires_at) == (None, None)
    assert (login.client, login.authorization_server) == (CLIENT, SERVER)


async def test_no_secret_is_shown(storage: LoginStorage) -> None:
    await storage.set_login(LOGIN)
    shown = f"{storage!r} {storage} {LOGIN!r} {LOGIN}"
    assert "secret" not in shown.replace("test_no_secret_is_shown", "")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such modes")
async def test_only_the_owner_can_read_the_file(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "tokens" / "a.json"
    await FileTokenStorage(path).set_login(LOGIN)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    path.chmod(0o644)
    await FileTokenStorage(path).set_login(LOGIN)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert entries(path.parent) == ["a.json"]


@given(
    content=st.binary(max_size=200) | st.recursive(st.none(), st.lists).map(repr).map(str.encode)
)
def test_a_damaged_file_counts_as_no_login(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.mktemp("damaged") / "a.json"
    path.write_bytes(content)

    async def read_and_write() -> None:
        storage = FileTokenStorage(path)
        assert await storage.get_login() == Login()
        await storage.set_login(LOGIN)
        assert await storage.get_login() == LOGIN

    anyio.run(read_and_write)


@pytest.mark.parametrize(
    "content",
    ["[" * 100_000, '{"tokens": 5}', '{"tokens": {"access_token": []}}', '{"expires_at": "x"}'],
)
async def test_a_file_of_another_shape_counts_as_no_login(tmp_path: Path, content: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(content, "utf-8")
    assert await FileTokenStorage(path).get_login() == Login()


async def test_a_file_that_cannot_be_replaced_stays_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.mkdir()
    with pytest.raises(OSError):
        await FileTokenStorage(path).set_login(LOGIN)
    assert entries(tmp_path) == ["a.json"]


async def test_two_writers_never_leave_half_a_file(tmp_path: Path) -> None:
    path = tmp_path / "a.json"

    async def write(name: str) -> None:
        storage = FileTokenStorage(path)
        for _ in range(20):
            await storage.set_login(Login().with_tokens(OAuthToken(access_token=name * 1000)))
            assert json.loads(path.read_text("utf-8"))["tokens"]["access_token"][0] in "ab"

    async with anyio.create_task_group() as group:
        group.start_soon(write, "a")
        group.start_soon(write, "b")


async def test_a_storage_of_the_sdk_keeps_the_servers_of_a_login_until_another_issuer_has_it() -> (
    None
):
    theirs = ForeignStorage()
    ours = SdkStorage(theirs)
    client = CLIENT.model_copy(update={"issuer": str(SERVER.issuer)})
    login = LOGIN.model_copy(update={"client": client})
    await ours.set_login(login)
    assert await ours.get_login() == login
    theirs.tokens = OAuthToken(access_token="renewed elsewhere")
    assert (await ours.get_login()).authorization_server == SERVER
    theirs.client = CLIENT.model_copy(update={"issuer": "https://c.example"})
    assert await ours.get_login() == Login(tokens=theirs.tokens, client=theirs.client)
    assert (await SdkStorage(theirs).get_login()).authorization_server is None


def test_each_server_client_and_choice_of_scopes_has_a_key_of_its_own() -> None:
    configs = [
        config_for("https://a.example"),
        config_for("https://b.example"),
        config_for("https://a.example", oauth=OAuthConfig(client_id="x")),
        config_for("https://a.example", oauth=OAuthConfig(scopes=("x",))),
        config_for("https://a.example", oauth=OAuthConfig(scopes=("x", "y"))),
    ]
    assert len({token_key(config) for config in configs}) == 5
    other = msgspec.structs.replace(configs[0], name="other")
    assert token_key(other) != token_key(configs[0])
    assert token_key(configs[0], tenant="red") != token_key(configs[0], tenant="blue")
    swapped = config_for("https://a.example", oauth=OAuthConfig(scopes=("y", "x")))
    assert token_key(swapped) == token_key(configs[-1])


def test_the_configuration_chooses_the_storage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", FakeKeyring())
    assert isinstance(token_storage_for(config_for("https://a.example")), FileTokenStorage)
    kept = token_storage_for(config_for("https://a.example", oauth=OAuthConfig(storage="keyring")))
    assert isinstance(kept, KeyringTokenStorage)


def test_the_error_names_the_extra_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(ConfigError, match=r"pegboard\[keyring\]"):
        KeyringTokenStorage("a")
