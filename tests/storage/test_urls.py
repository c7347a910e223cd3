from pathlib import Path

import pytest

from pegboard.storage.urls import path_of, without_password


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
