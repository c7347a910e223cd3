"""What a user of RegistryTools does with files of tools, run with `registry-tools` and with ours.

`tests.oracles.registrytools` takes these scenarios into its table.
"""

import contextlib
import inspect
import json
import os
import pathlib
import sqlite3
import tempfile
from collections.abc import Callable, Generator
from datetime import datetime, timedelta, timezone
from typing import Any

from tests.oracles.outcomes import caught, logged
from tests.oracles.table import Table

TABLE = Table()

WHEN = datetime(2026, 3, 29, 2, 30, 0, 123)  # noqa: DTZ001 - RegistryTools has local times
OLD_TABLE = (
    "CREATE TABLE tools (name TEXT PRIMARY KEY, description TEXT NOT NULL, mcp_server TEXT, "
    "defer_loading INTEGER, tags TEXT, category TEXT, use_frequency INTEGER, last_used TEXT, "
    "input_schema TEXT, output_schema TEXT)"
)
Kind = Callable[[Any], Any]


def scenarios(action: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Make two scenarios of one: with a JSON file and with a database."""
    for kind in ("JSONStorage", "SQLiteStorage"):

        def scenario(its: Any, kind: str = kind) -> Any:
            with folder():
                return action(its, getattr(its, kind))

        scenario.__name__ = f"{action.__name__}_with_{kind}"
        TABLE.scenario(scenario)
    return action


@contextlib.contextmanager
def folder() -> Generator[pathlib.Path]:
    """Work in a new folder, so that no outcome names it."""
    before = pathlib.Path.cwd()
    with tempfile.TemporaryDirectory() as made:
        os.chdir(made)
        try:
            yield pathlib.Path(made)
        finally:
            os.chdir(before)


def full(its: Any, name: str = "aws.cost", **changes: Any) -> Any:
    """Return a tool with a value in every field."""
    fields: dict[str, Any] = {
        "name": name,
        "description": "查询 AWS 账单",
        "mcp_server": "aws",
        "defer_loading": False,
        "tags": {"aws"},
        "category": "cloud",
        "use_frequency": 12,
        "last_used": WHEN,
        "temperature": its.ToolTemperature.HOT,
        "input_schema": {"type": "object", "properties": {"z": {}, "a": {"type": "string"}}},
        "output_schema": {"type": "array"},
    }
    return its.ToolMetadata(**fields | changes)


def some(its: Any) -> list[Any]:
    """Return three tools, not in the order of their names."""
    return [full(its, "b"), full(its, "a", use_frequency=4), full(its, "c", use_frequency=0)]


def listed(storage: Any) -> list[str]:
    """Return the names of the tools in the order in which they are loaded."""
    return [tool.name for tool in storage.load_all()]


def files() -> list[str]:
    """Return the names of all files of the folder."""
    return sorted(it.name for it in pathlib.Path().iterdir())


def rows(query: str = "SELECT * FROM tools") -> list[Any]:
    """Return what another program finds in the database."""
    with contextlib.closing(sqlite3.connect("tools.db")) as connection:
        return [list(row) for row in connection.execute(query)]


def database(*statements: str) -> None:
    """Write a database as another program would."""
    with contextlib.closing(sqlite3.connect("tools.db")) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


@scenarios
def everything_is_kept(its: Any, kind: Kind) -> Any:
    kind("tools").save(full(its))
    return kind("tools").load_all(), kind("tools").get("aws.cost")


@scenarios
def a_tool_of_two_fields_is_kept(its: Any, kind: Kind) -> Any:
    storage = kind("tools")
    storage.save(its.ToolMetadata(name="a", description=""))
    return storage.load_all()


@scenarios
def the_moment_of_the_last_use_is_compared_with_now(its: Any, kind: Kind) -> Any:
    storage = kind("tools")
    storage.save(full(its, last_used=datetime.now()))  # noqa: DTZ005 - as its users do
    age = datetime.now() - storage.get("aws.cost").last_used  # noqa: DTZ005 - the same
    return age.days, age.seconds < 60


@scenarios
def a_moment_with_a_zone_keeps_it(its: Any, kind: Kind) -> Any:
    zone = timezone(timedelta(hours=8))
    storage = kind("tools")
    storage.save(full(its, last_used=WHEN.replace(tzinfo=zone)))
    return storage.get("aws.cost").last_used


@scenarios
def nothing_is_there_before_the_first_use(its: Any, kind: Kind) -> Any:
    storage = kind("tools")
    return storage.validate(), storage.path, files()


@scenarios
def reading_what_is_not_there(its: Any, kind: Kind) -> Any:
    storage = kind("tools")
    return [
        storage.load_all(),
        storage.get("a"),
        storage.exists("a"),
        storage.delete("a"),
        storage.count(),
        storage.is_empty(),
        storage.load_by_temperature(its.ToolTemperature.HOT),
        storage.validate(),
    ]


@scenarios
def the_file_is_there_when_save_returns(its: Any, kind: Kind) -> Any:
    kind("tools").save(full(its))
    return sorted({name.partition(".")[2].partition("-")[0] for name in files()}), [
        it.is_file() for it in (pathlib.Path("tools.json"), pathlib.Path("tools.db"))
    ]


@scenarios
def the_file_can_be_read_by_its_owner_alone_or_by_all(its: Any, kind: Kind) -> Any:
    storage = kind("tools")
    storage.save(full(its))
    return storage.path.stat().st_mode & 0o777


@scenarios
def the_suffix_is_the_right_one(its: Any, kind: Kind) -> Any:
    given = ["tools", "tools.json", "tools.db", "tools.txt", "tools.JSON", "a.b.c", ".hidden"]
    return [kind(it).path for it in given], [kind(pathlib.Path("x") / "y").path]


@scenarios
def a_home_folder_is_not_looked_up(its: Any, kind: Kind) -> Any:
    return kind("~/tools").path


@scenarios
def a_path_without_a_name(its: Any, kind: Kind) -> Any:
    return caught(kind, ""), caught(kind, "/"), caught(kind, None), caught(kind, 1)


@scenarios
def folders_are_made(its: Any, kind: Kind) -> Any:
    storage = kind(pathlib.Path("one") / "two" / "tools")
    storage.save(full(its))
    return listed(storage), files()


@scenarios
def a_folder_is_made_by_initialize(its: Any, kind: Kind) -> Any:
    storage = kind(pathlib.Path("one") / "tools")
    answer = storage.initialize()
    return answer, storage.validate(), storage.load_all(), storage.path.exists()


@scenarios
def initialize_keeps_what_is_there(its: Any, kind: Kind) -> Any:
    storage = kind("tools")
    storage.save(full(its))
    storage.initialize()
    storage.initialize()
    return listed(storage)


@scenarios
def tools_come_in_the_order_of_the_file(its: Any, kind: Kind) -> Any:
    storage = kind("tools")
    for tool in some(its):
        storage.save(tool)
    before = listed(storage)
    storage.save(full(its, "a", description="new"))
    return before, listed(storage)


@scenarios
def many_tools_at_once(its: Any, kind: Kind) -> Any:
    storage = kind("tools")
    answer = storage.save_many(some(its))
    return answer, listed(storage), storage.count()


@scenarios
def many_tools_beside_one_that_is_there(its: Any, kind: Kind) -> Any:
    storage = kind("tools")
    storage.save(full(its, "old"))
    storage.save_many(some(its))
    return listed(storage)


@scenarios
def an_empty_list_of_tools(its: Any, kind: Kind) -> Any:
    storage = kind("tools")
    nothing = storage.save_many([]), files()
    storage.save(full(its))
    storage.save_many([])
    return nothing, listed(storage)


@scenarios
def two_tools_of_one_name_in_a_list(its: Any, kind: Kind) -> Any:
    storage = kind("tools")
    storage.save_many([full(its, "a", description="1"), full(its, "a", description="2")])
    return [tool.description for tool in storage.load_all()]


@scenarios
def something_else_in_the_list(its: Any, kind: Kind) -> Any:
    storage = kind("tools")
    storage.save(full(its, "old"))
    return caught(storage.save_many, [full(its), "tool"]), listed(storage)


@scenarios
def something_else_is_saved(its: Any, kind: Kind) -> Any:
    storage = kind("tools")
    return caught(storage.save, None), caught(storage.save, {"name": "a"})


@scenarios
def saving_again_replaces_the_tool(its: Any, kind: Kind) -> Any:
    storage = kind("tools")
    storage.save(full(its))
    storage.save(its.ToolMetadata(name="aws.cost", description="new"))
    return storage.load_all()


@scenarios
def deleting_tells_whether_there_was_one(its: Any, kind: Kind) -> Any:
    storage = kind("tools")
    storage.save_many(some(its))
    return storage.delete("a"), storage.delete("a"), listed(storage)


@scenarios
def deleting_the_last_tool(its: Any, kind: Kind) -> Any:
    storage = kind("tools")
    storage.save(full(its))
    answer = storage.delete("aws.cost")
    return answer, storage.path.exists(), storage.validate(), storage.count()


@scenarios
def clearing(its: Any, kind: Kind) -> Any:
    storage = kind("tools")
    nothing = storage.clear()
    storage.save_many(some(its))
    answer = storage.clear()
    return nothing, answer, storage.is_empty(), storage.path.exists(), storage.validate()


@scenarios
def asking_for_one_tool(its: Any, kind: Kind) -> Any:
    storage = kind("tools")
    storage.save_many(some(its))
    return storage.get("a"), storage.get("x"), storage.exists("a"), storage.exists("x")


@scenarios
def names_that_mean_something_elsewhere(its: Any, kind: Kind) -> Any:
    given = ["'; DROP TABLE tools; --", "../../etc/passwd", "%", "", "  ", "a\nb", "名", "a" * 600]
    storage = kind("tools")
    for name in given:
        storage.save(full(its, name))
    return listed(storage), [storage.exists(name) for name in given], storage.delete("%")


@scenarios
def a_name_that_is_no_text(its: Any, kind: Kind) -> Any:
    storage = kind("tools")
    return caught(storage.save, full(its, "\ud800")), caught(storage.count)


@scenarios
def the_temperature_goes_by_the_uses_alone(its: Any, kind: Kind) -> Any:
    storage = kind("tools")
    ages = {2: 0, 3: 400, 9: 0, 10: 400, 99: 0}
    storage.save_many(
        [
            full(its, f"t{uses}", use_frequency=uses, last_used=datetime.now() - timedelta(days))  # noqa: DTZ005 - as its users do
            for uses, days in ages.items()
        ]
    )
    return {
        it.value: [tool.name for tool in storage.load_by_temperature(it)]
        for it in its.ToolTemperature
    }


@scenarios
def a_limit_of_tools(its: Any, kind: Kind) -> Any:
    storage = kind("tools")
    storage.save_many([full(its, name) for name in "abc"])
    hot = its.ToolTemperature.HOT
    return [
        [tool.name for tool in storage.load_by_temperature(hot, limit)] for limit in (1, 9, 0, None)
    ]


@scenarios
def a_negative_limit(its: Any, kind: Kind) -> Any:
    storage = kind("tools")
    storage.save_many(some(its))
    return caught(lambda: len(storage.load_by_temperature(its.ToolTemperature.COLD, limit=-1)))


@scenarios
def the_temperature_that_was_given_is_kept(its: Any, kind: Kind) -> Any:
    storage = kind("tools")
    storage.save(full(its, use_frequency=0, temperature=its.ToolTemperature.WARM))
    return storage.get("aws.cost").temperature


@scenarios
def empty_schemas(its: Any, kind: Kind) -> Any:
    storage = kind("tools")
    storage.save(full(its, input_schema={}, output_schema={}))
    return storage.get("aws.cost")


@scenarios
def what_was_loaded_is_the_callers_own(its: Any, kind: Kind) -> Any:
    storage = kind("tools")
    storage.save(full(its))
    found = storage.get("aws.cost")
    found.tags.add("new")
    found.input_schema["properties"]["a"]["type"] = "number"
    return storage.get("aws.cost")


@scenarios
def negative_and_large_counts(its: Any, kind: Kind) -> Any:
    storage = kind("tools")
    storage.save(full(its, "few", use_frequency=-1))
    storage.save(full(its, "most", use_frequency=2**63 - 1))
    return caught(storage.save, full(its, "more", use_frequency=2**63)), storage.load_all()


@scenarios
def the_file_is_deleted_meanwhile(its: Any, kind: Kind) -> Any:
    storage = kind("tools")
    storage.initialize()
    storage.path.unlink()
    return storage.validate(), storage.path.exists()


@scenarios
def a_folder_is_in_the_way(its: Any, kind: Kind) -> Any:
    storage = kind("tools")
    storage.path.mkdir()
    return [
        caught(storage.load_all),
        caught(storage.save, full(its)),
        caught(storage.save_many, [full(its)]),
        caught(storage.delete, "a"),
        caught(storage.exists, "a"),
        caught(storage.get, "a"),
        caught(storage.count),
        caught(storage.is_empty),
        caught(storage.validate),
    ]


@scenarios
def a_file_is_where_the_folder_should_be(its: Any, kind: Kind) -> Any:
    pathlib.Path("one").write_text("")
    storage = kind(pathlib.Path("one") / "tools")
    return caught(storage.save, full(its)), caught(storage.initialize), caught(storage.validate)


@scenarios
def the_file_is_damaged(its: Any, kind: Kind) -> Any:
    storage = kind("tools")
    storage.path.write_bytes(b'{"a": {"name": "a", "descr' * 200)
    return [
        caught(storage.load_all),
        caught(storage.load_by_temperature, its.ToolTemperature.HOT),
        caught(storage.delete, "a"),
        caught(storage.exists, "a"),
        caught(storage.get, "a"),
        caught(storage.count),
        caught(storage.is_empty),
        caught(storage.validate),
    ]


@scenarios
def saving_to_a_damaged_file(its: Any, kind: Kind) -> Any:
    storage = kind("tools")
    storage.path.write_bytes(b'{"a": {"name": "a", "descr' * 200)
    return caught(storage.save, full(its)), caught(listed, storage)


@scenarios
def the_file_is_empty(its: Any, kind: Kind) -> Any:
    storage = kind("tools")
    storage.path.write_bytes(b"")
    asked = [caught(storage.load_all), storage.count(), storage.validate()]
    storage.initialize()
    return asked, caught(storage.load_all)


@scenarios
def two_storages_of_one_file(its: Any, kind: Kind) -> Any:
    one, other = kind("tools"), kind("tools")
    one.save(full(its, "a"))
    other.save(full(its, "b"))
    one.delete("a")
    return listed(one), listed(other)


@scenarios
def what_a_storage_is(its: Any, kind: Any) -> Any:
    return issubclass(kind, its.ToolStorage), [
        str(inspect.signature(getattr(kind, name)).parameters.keys())
        for name in ("save", "save_many", "delete", "get", "load_by_temperature")
    ]


@TABLE.scenario
def what_has_to_be_written_in_a_storage(its: Any) -> Any:
    return set(its.ToolStorage.__abstractmethods__), caught(its.ToolStorage, "x")


@TABLE.scenario
def a_storage_of_ones_own(its: Any) -> Any:
    class Own(its.ToolStorage):
        tools: dict[str, Any] = {}

        def load_all(self) -> Any:
            return list(self.tools.values())

        def save(self, tool: Any) -> None:
            self.tools = self.tools | {tool.name: tool}

        def save_many(self, tools: Any) -> None:
            for tool in tools:
                self.save(tool)

        def delete(self, tool_name: str) -> bool:
            kept = {key: it for key, it in self.tools.items() if key != tool_name}
            found, self.tools = len(kept) < len(self.tools), kept
            return found

        def exists(self, tool_name: str) -> bool:
            return tool_name in self.tools

        def load_by_temperature(self, temperature: Any, limit: int | None = None) -> Any:
            return self.load_all()[:limit]

    with folder():
        storage = Own("one/own.x")
        asked = [storage.path, storage.validate(), storage.initialize(), files()]
        storage.path.write_text("")
        place = Own("two")
        place.initialize()
        storage.save_many(some(its))
        return [
            asked,
            storage.validate(),
            place.validate(),
            files(),
            storage.get("a"),
            storage.get("x"),
            storage.count(),
            storage.is_empty(),
            storage.clear(),
            storage.is_empty(),
        ]


@TABLE.scenario
def a_json_file_as_other_programs_read_it(its: Any) -> Any:
    with folder():
        storage = its.JSONStorage("tools")
        storage.save_many(some(its))
        storage.save(its.ToolMetadata(name="0", description="零"))
        text = pathlib.Path("tools.json").read_text("utf-8")
        return text, files()


@TABLE.scenario
def an_empty_json_file_is_an_empty_object(its: Any) -> Any:
    with folder():
        its.JSONStorage("tools").initialize()
        return pathlib.Path("tools.json").read_text("utf-8")


@TABLE.scenario
def a_json_file_that_was_edited(its: Any) -> Any:
    with folder():
        written = {
            "z": {"name": "z", "description": "last letter", "tags": ["b", "b"]},
            "a": {"name": "a", "description": "", "last_used": "2026-01-05T12:00:00.5"},
            "odd": {"name": "odd", "description": "", "future": True},
            "other": {"name": "not other", "description": ""},
        }
        pathlib.Path("tools.json").write_text(json.dumps(written))
        storage = its.JSONStorage("tools")
        return storage.load_all(), storage.get("other"), storage.exists("not other")


@TABLE.scenario
def invalid_tools_in_a_json_file_are_left_out_with_a_warning(its: Any) -> Any:
    with folder(), logged() as levels:
        written = {
            "a": {"name": "a", "description": ""},
            "b": {"name": "b"},
            "c": {"name": "c", "description": "", "use_frequency": "often"},
        }
        pathlib.Path("tools.json").write_text(json.dumps(written))
        storage = its.JSONStorage("tools")
        found = listed(storage)
        return found, levels, storage.count(), caught(storage.get, "b"), storage.validate()


@TABLE.scenario
def a_json_file_keeps_what_it_does_not_know_until_that_tool_is_saved(its: Any) -> Any:
    with folder():
        path = pathlib.Path("tools.json")
        path.write_text(json.dumps({"a": {"name": "a", "description": "", "future": 1}, "b": {}}))
        storage = its.JSONStorage("tools")
        storage.save(full(its, "c"))
        kept = json.loads(path.read_text("utf-8"))
        storage.save(full(its, "a"))
        return kept["a"], kept["b"], sorted(json.loads(path.read_text("utf-8"))["a"])


@TABLE.scenario
def a_json_file_with_something_else(its: Any) -> Any:
    with folder():
        outcomes: list[Any] = []
        for text in ("[]", "5", '"text"', "null", "[1]"):
            pathlib.Path("tools.json").write_text(text)
            storage = its.JSONStorage("tools")
            outcomes.append([caught(storage.load_all), storage.validate()])
        return outcomes


@TABLE.scenario
def a_json_file_that_is_not_utf_8(its: Any) -> Any:
    with folder():
        pathlib.Path("tools.json").write_bytes(b'{"a": "\xff"}')
        storage = its.JSONStorage("tools")
        return caught(storage.load_all), caught(storage.save, full(its)), storage.validate()


@TABLE.scenario
def the_table_of_a_database(its: Any) -> Any:
    with folder():
        its.SQLiteStorage("tools").initialize()
        return rows("SELECT * FROM pragma_table_info('tools')"), rows("PRAGMA journal_mode")


@TABLE.scenario
def a_database_as_other_programs_read_it(its: Any) -> Any:
    with folder():
        storage = its.SQLiteStorage("tools")
        storage.save_many(some(its))
        storage.save(its.ToolMetadata(name="0", description="零"))
        return rows()


@TABLE.scenario
def the_files_of_an_open_database(its: Any) -> Any:
    with folder():
        storage = its.SQLiteStorage("tools")
        storage.save(full(its))
        return files(), storage.count()


@TABLE.scenario
def an_old_database_without_temperatures(its: Any) -> Any:
    with folder():
        database(
            OLD_TABLE,
            "INSERT INTO tools VALUES ('a', 'old', NULL, 1, '[\"x\"]', NULL, 11, "
            "'2026-01-05T12:00:00', NULL, '{}')",
        )
        storage = its.SQLiteStorage("tools")
        return storage.load_all(), storage.get("a"), storage.delete("a")


@TABLE.scenario
def a_database_without_the_table(its: Any) -> Any:
    with folder():
        database("CREATE TABLE other (x)")
        storage = its.SQLiteStorage("tools")
        asked = [
            caught(storage.load_all),
            caught(storage.save, full(its)),
            caught(storage.delete, "a"),
            caught(storage.clear),
            storage.exists("a"),
            storage.get("a"),
            storage.count(),
            storage.validate(),
        ]
        storage.initialize()
        return asked, storage.load_all(), storage.validate()


@TABLE.scenario
def odd_values_in_a_database(its: Any) -> Any:
    with folder(), logged() as levels:
        its.SQLiteStorage("tools").initialize()
        columns = "(name, description, tags, temperature, last_used, defer_loading, use_frequency)"
        values = [
            ("a", "", "[]", "lukewarm", None, 0, 1),
            ("b", "", "", None, "", None, 1),
            ("c", "", "not json", "hot", None, 1, 1),
            ("d", "", None, "hot", "yesterday", 1, 1),
            ("e", "", None, "hot", None, 1, "often"),
        ]
        with contextlib.closing(sqlite3.connect("tools.db")) as connection:
            connection.executemany(f"INSERT INTO tools {columns} VALUES (?,?,?,?,?,?,?)", values)
            connection.commit()
        storage = its.SQLiteStorage("tools")
        found = storage.load_all()
        warned = [it for it in levels if it != "DEBUG"]
        return found, warned, caught(storage.get, "c"), caught(storage.get, "d"), storage.count()


@TABLE.scenario
def a_database_keeps_text_as_it_is(its: Any) -> Any:
    with folder():
        storage = its.SQLiteStorage("tools")
        storage.save(full(its, tags=["é"], input_schema={"title": "é"}))
        return rows("SELECT tags, input_schema, last_used, defer_loading FROM tools")


@TABLE.scenario
def tools_move_from_json_to_a_database_and_back(its: Any) -> Any:
    with folder():
        one, other, third = its.JSONStorage("a"), its.SQLiteStorage("b"), its.JSONStorage("c")
        one.save_many(some(its))
        other.save_many(one.load_all())
        third.save_many(other.load_all())
        return third.load_all() == one.load_all(), other.load_all()
