import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from pegboard import Tool
from pegboard.errors import StorageError
from pegboard.storage import DEFAULT_TENANT, default_url, open_store
from pegboard.storage.open_store import path_of, without_password
from pegboard.testing import MemoryStore
from tests.storage.postgres_server import PostgresServer

SECRET = "s3cret"
PLUGIN = """
from pegboard.testing import Memory
memories = {}
def open_url(url, tenant):
    return memories.setdefault(url, Memory()).open(tenant)
"""


@pytest.mark.parametrize(
    ("url", "file"),
    [
        ("tools.json", "tools.json"),
        ("TOOLS.JSON", "TOOLS.JSON"),
        ("json:tools.json", "tools.json"),
        ("json:whatever", "whatever"),
        ("JSON:tools.json", "tools.json"),
        ("tools.db", "tools.db"),
        ("tools.sqlite", "tools.sqlite"),
        ("tools.sqlite3", "tools.sqlite3"),
        ("sqlite:whatever", "whatever"),
        ("sqlite:two%20words.db", "two words.db"),
        ("two words.db", "two words.db"),
        ("new/folder/tools.json", "new/folder/tools.json"),
        ("new/folder/tools.db", "new/folder/tools.db"),
    ],
)
def test_a_path_or_a_url_says_what_to_open(
    url: str, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    keep_and_find(url)
    assert (tmp_path / file).is_file()


@pytest.mark.parametrize("scheme", ["json", "sqlite"])
def test_a_url_with_three_slashes_is_a_whole_path(scheme: str, tmp_path: Path) -> None:
    keep_and_find(f"{scheme}://{tmp_path}/here")
    assert (tmp_path / "here").is_file()


@pytest.mark.parametrize("name", ["tools.json", "tools.db"])
def test_a_path_object_is_a_path(name: str, tmp_path: Path) -> None:
    keep_and_find(tmp_path / name)
    assert (tmp_path / name).is_file()


@pytest.mark.parametrize("scheme", ["postgresql", "postgres"])
def test_postgresql_has_two_schemes(scheme: str, new_url: Callable[[str], str]) -> None:
    keep_and_find(new_url("postgres").replace("postgresql:", f"{scheme}:"))


def test_the_environment_says_where_when_the_caller_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PEGBOARD_STORE", str(tmp_path / "mine.json"))
    keep_and_find(None)
    assert (tmp_path / "mine.json").is_file()


@pytest.mark.skipif(sys.platform != "linux", reason="the variable is one of Linux")
def test_by_default_everything_is_in_the_users_data_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PEGBOARD_STORE", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert default_url() == str(tmp_path / "pegboard" / "pegboard.db")
    keep_and_find(None)
    assert (tmp_path / "pegboard" / "pegboard.db").is_file()


@pytest.mark.parametrize("url", ["tools", "tools.yaml", "", ".", "C:tools"])
def test_a_path_that_does_not_say_its_kind_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="does not say what kind of store it is"):
        open_store(url)


def test_an_unknown_scheme_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(ValueError, match=r"`redis:`.*json, postgres, postgresql, sqlite"):
        open_store(f"redis://me:{SECRET}@here/0")


@pytest.mark.parametrize("tenant", ["", "a\0", "a" * 513])
def test_a_bad_tenant_is_refused_before_anything_is_opened(tenant: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="tenant"):
        open_store(tmp_path / "tools.db", tenant=tenant)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_extra_is_named() -> None:
    # None in its place is how an import finds nothing.
    code = (
        "import sys; sys.modules['psycopg'] = None; from pegboard.storage import open_store; "
        f"open_store('postgresql://me:{SECRET}@here/db')"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=False
    )
    last = run.stderr.strip().splitlines()[-1]
    assert last.startswith("pegboard.errors.StorageError")
    assert "pip install " in last
    assert "[postgres]'" in last
    assert SECRET not in last


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://me:{SECRET}@here/db",
        f"postgresql://:{SECRET}@here/db",
        f"postgresql://me:%40@{SECRET}@here:5432,there:5433/db",
        f"postgresql://here/db?user=me&password={SECRET}&application_name=a",
        f"postgresql:///db?sslpassword={SECRET}",
    ],
)
def test_a_url_is_shown_without_its_password(url: str) -> None:
    shown = without_password(url)
    assert SECRET not in shown
    assert "***" in shown
    assert "db" in shown


def test_a_server_that_refuses_us_does_not_make_us_tell_the_password(
    postgres_server: PostgresServer,
) -> None:
    urls = [
        postgres_server.url(user="locked").replace("locked@", f"locked:{SECRET}@"),
        f"postgresql://me:{SECRET}@127.0.0.1:1/db?connect_timeout=2",
    ]
    for url in urls:
        with pytest.raises(StorageError) as caught:
            open_store(url)
        assert SECRET not in caught.value.url
        assert SECRET not in "".join(traceback.format_exception_only(caught.value))


def test_another_package_offers_its_own_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = tmp_path / "drawer_store-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: drawer-store\nVersion: 1.0\n", encoding="utf-8"
    )
    (about / "entry_points.txt").write_text(
        "[pegboard.stores]\ndrawer = drawer_store:open_url\n", encoding="utf-8"
    )
    (tmp_path / "drawer_store.py").write_text(PLUGIN, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with open_store("drawer://left", tenant="me") as store:
        assert isinstance(store, MemoryStore)
        assert store.tenant == "me"
    keep_and_find("DRAWER://right")
    with pytest.raises(ValueError, match="known: drawer, json"):
        open_store("cupboard://left")


def keep_and_find(url: str | Path | None) -> None:
    with open_store(url) as store:
        assert store.tenant == DEFAULT_TENANT
        store.save(Tool(name="a"))
    with open_store(url) as store:
        assert [it.tool.name for it in store.load_all()] == ["a"]


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:s3cret@h:5432/db?x=1",
        "postgresql://u:s3cret/x@h/db",
        "postgresql://u:a@s3cret@h/db",
        "postgresql://h/db?PASSWORD=s3cret&a=b",
        "postgresql:u:s3cret@h",
        "postgresql//u:s3cret@h",
        "host=h password='two s3cret words' x=1",
    ],
)
def test_a_password_never_shows(url: str) -> None:
    assert "s3cret" not in without_password(url)
    assert "***" in without_password(url)


@pytest.mark.parametrize(
    "url",
    [
        "tools.json",
        "sqlite:///home/x@y/z.db",
        "/home/a:b@c/tools.json",
        "postgresql://u@h/db",
        "postgresql://h:5432/db",
    ],
)
def test_what_holds_no_password_is_shown_as_it_is(url: str) -> None:
    assert without_password(url) == url


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("tools.json", "tools.json"),
        ("json:///srv/tools.json", "/srv/tools.json"),
        ("sqlite:///with%20blank/a.db", "/with blank/a.db"),
        ("sqlite:relative.db", "relative.db"),
        ("sqlite:///C:/here.db", "C:/here.db"),
    ],
)
def test_a_url_names_a_file(url: str, path: str) -> None:
    assert path_of(url) == Path(path)
