import importlib
from pathlib import Path

import pytest

import pegboard

PACKAGES = [
    *("errors", "model", "config", "storage", "policies", "registry", "observe", "toolsets"),
    *("search", "upstream", "hub", "testing", "auth", "gateway", "server", "doctor", "directory"),
    *("compat.sage", "compat.excelmanus", "compat.liteai", "compat.agentscope"),
    "compat.registrytools",
]
SOURCE = Path(pegboard.__file__).parent


def test_every_public_name_can_be_imported_and_has_a_docstring() -> None:
    for name in pegboard.__all__:
        value = getattr(pegboard, name)
        assert value is not None
        if name != "__version__":
            assert value.__doc__, name


def test_the_top_level_hides_nothing_and_invents_nothing() -> None:
    assert dir(pegboard) == sorted(pegboard.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = pegboard.nonsense  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize("package", PACKAGES)
def test_all_lists_exactly_what_a_package_offers(package: str) -> None:
    module = importlib.import_module(f"pegboard.{package}")
    assert sorted(module.__all__) == sorted(set(module.__all__))
    for name in module.__all__:
        assert hasattr(module, name)


def test_every_module_begins_with_a_docstring_and_is_one_room() -> None:
    for path in SOURCE.rglob("*.py"):
        text = path.read_text("utf-8")
        assert text.startswith('"""'), path
        assert text.count("\n") <= 500, f"{path} has become two rooms"


def test_the_whole_error_tree_is_drawn_in_its_docstring() -> None:
    errors = importlib.import_module("pegboard.errors")
    drawing = errors.__doc__ or ""
    for name in errors.__all__:
        if name.endswith("Error"):
            assert name in drawing, name
            assert issubclass(getattr(errors, name), errors.PegboardError)
