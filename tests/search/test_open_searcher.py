import subprocess
import sys
from pathlib import Path

import pytest

from pegboard.errors import InvalidQueryError, SearcherNotFoundError
from pegboard.model import Tool
from pegboard.registry import Registry
from pegboard.search import Searcher, open_searcher, search_methods

PLUGIN = """
from pegboard.search.methods.regex import Regex

class Mine(Regex):
    pass

def broken():
    raise ZeroDivisionError("no")
"""


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    about = tmp_path / "my_searcher-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: my-searcher\nVersion: 1.0\n", encoding="utf-8"
    )
    (about / "entry_points.txt").write_text(
        "[pegboard.searchers]\nmine = my_searcher:Mine\nbroken = my_searcher:broken\n"
        "odd = builtins:object\nmissing = my_searcher:nobody\n",
        encoding="utf-8",
    )
    (tmp_path / "my_searcher.py").write_text(PLUGIN, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)


def test_an_unknown_method_names_those_that_are_known() -> None:
    with pytest.raises(SearcherNotFoundError) as caught:
        open_searcher("magic")
    assert caught.value.known == ("regex", "bm25", "embedding", "hybrid")
    assert isinstance(caught.value, KeyError)


@pytest.mark.usefixtures("plugins")
def test_another_package_offers_a_method() -> None:
    assert isinstance(open_searcher("mine"), Searcher)
    assert "mine" in search_methods()
    registry = Registry()
    registry.register(Tool(name="send_email"))
    assert registry.search("mail", method="mine").hits[0].tool.name == "send_email"


@pytest.mark.usefixtures("plugins")
@pytest.mark.parametrize("method", ["broken", "odd", "missing"])
def test_a_package_that_cannot_be_used_is_named(method: str) -> None:
    with pytest.raises(InvalidQueryError, match=method) as caught:
        open_searcher(method)
    assert caught.value.option == "method"
    assert caught.value.__cause__ is not None


def test_searching_by_patterns_loads_no_numpy() -> None:
    code = (
        "import sys; from pegboard import Registry, Tool; registry = Registry(); "
        "registry.register(Tool(name='send_email')); assert 're2' not in sys.modules; "
        "assert registry.search('mail', method='regex').hits; assert 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
