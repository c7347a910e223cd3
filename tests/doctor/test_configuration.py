import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from pegboard.doctor import Report, diagnose
from pegboard.errors import ServerNotFoundError
from tests.doctor.patients import TOOL, assert_in_words, codes, report_of, script, speaking
from tests.skills.test_folder import write


async def of_file(path: Path, content: Any, mode: int = 0o600) -> Report:
    text = content if isinstance(content, str) else json.dumps(content, indent=2)
    script(path, text, mode)
    return await diagnose(path)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("PEGBOARD_CONFIG", raising=False)
    return tmp_path / "mcp.json"


async def test_a_file_that_is_not_json_is_told_with_the_place(path: Path) -> None:
    report = await of_file(path, '{"mcpServers": {\n  "it": {"command": "x"\n')
    [finding] = report.findings
    assert finding.code == "config_unreadable"
    assert (finding.place or "").startswith(f"{path}:")
    assert not report.is_ok


async def test_an_entry_that_the_lists_do_not_allow_is_told_and_not_started(path: Path) -> None:
    servers = {"it": {"command": "/opt/bin/it"}}
    content = {"registry": {"allow": ["npm:@acme/*"]}, "mcpServers": servers}
    report = await of_file(path, content)
    [finding] = [it for it in report.findings if it.code == "not_allowed"]
    assert finding.server == "it"
    assert "`registry.allow`" in finding.remedy
    assert not report.is_ok


async def test_a_file_that_is_not_there_is_told(path: Path) -> None:
    report = await diagnose(path)
    assert codes(report.findings) == ["no_configuration"]
    assert report.findings[0].place == str(path)
    assert "`pegboard config path`" in report.findings[0].remedy


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
async def test_a_file_that_may_not_be_read_is_told(path: Path) -> None:
    report = await of_file(path, {}, mode=0o000)
    assert codes(report.findings) == ["config_unreadable"]


@pytest.mark.parametrize(
    "entry",
    [
        {"command": "/opt/bin/pegboard", "args": ["serve", "--stdio", "--config", "mcp.json"]},
        {"command": "uvx", "args": ["pegboard", "serve", "--stdio", "--config=mcp.json"]},
        {"command": "pegboard", "args": ["serve", "--stdio"], "cwd": "."},
        {"command": "pegboard", "args": ["serve"], "env": {"PEGBOARD_CONFIG": "mcp.json"}},
    ],
)
async def test_an_entry_that_is_pegboard_itself_is_told_and_not_started(
    path: Path, entry: dict[str, Any]
) -> None:
    report = await of_file(path, {"mcpServers": {"me": entry, "it": speaking(TOOL)}})
    [finding] = report.findings
    assert (finding.code, finding.server) == ("itself", "me")
    assert "`pegboard remove me`" in finding.remedy
    assert [(it.server, it.state) for it in report.servers] == [("it", "ready"), ("me", "unusable")]


@pytest.mark.parametrize("words", [["--config", "other.json"], ["--config", "gone"], ["--demo"]])
async def test_a_gateway_with_other_servers_is_an_entry_like_any(
    path: Path, words: list[str]
) -> None:
    script(path.parent / "other.json", "{}", 0o600)
    entry = {"command": str(path.parent / "no/pegboard"), "args": ["serve", *words]}
    report = await of_file(path, {"mcpServers": {"other": entry}})
    assert codes(report.findings) == ["command_not_found"]


async def test_a_variable_without_braces_is_told_with_how_it_is_written(path: Path) -> None:
    report = await of_file(path, {"mcpServers": {"it": speaking(TOOL, env={"KEY": "$HOME_KEY"})}})
    [finding] = report.findings
    assert finding.code == "unset_variable"
    assert "in braces, `${NAME}`" in finding.remedy


async def test_no_configuration_at_all_is_told_with_how_to_get_one(path: Path) -> None:
    report = await diagnose()
    [finding] = report.findings
    assert finding.code == "no_configuration"
    assert "`pegboard import`" in finding.remedy


async def test_nothing_configured_and_a_bad_store_are_both_told(path: Path) -> None:
    report = await diagnose(store="nonesuch://host")
    assert codes(report.findings) == ["no_configuration", "store_unusable"]


async def test_a_file_without_servers_is_told(path: Path) -> None:
    report = await of_file(path, {"mcpServers": {}})
    assert codes(report.findings) == ["no_configuration"]


async def test_a_variable_that_is_not_set_is_told_with_its_place(path: Path) -> None:
    servers = {"it": {"command": "x", "env": {"KEY": "${PEGBOARD_NONESUCH}"}}}
    [finding] = (await of_file(path, {"mcpServers": servers})).findings
    assert (finding.code, finding.severity, finding.server) == ("unset_variable", "error", "it")
    assert "PEGBOARD_NONESUCH is not set" in finding.what
    assert "${PEGBOARD_NONESUCH:-default}" in finding.remedy
    assert finding.place == f"{path}:6:16"
    assert_in_words(finding)


async def test_a_field_that_nobody_reads_is_told_with_what_was_meant() -> None:
    report = await report_of({"it": speaking(TOOL, enviroment={})})
    [finding] = report.findings
    assert (finding.code, finding.severity) == ("unknown_field", "warning")
    assert "`enviroment`" in finding.what


async def test_an_entry_that_cannot_be_used_is_told_and_the_others_are_looked_at() -> None:
    report = await report_of({"bad": {"args": "x"}, "it": speaking(TOOL)})
    assert codes(report.findings) == ["bad_entry"]
    assert [(it.server, it.state) for it in report.servers][1:] == [("bad", "unusable")]


async def test_a_field_that_is_not_used_is_told() -> None:
    report = await report_of({"it": speaking(TOOL, headers={"X-Trace": "1"})})
    assert codes(report.findings) == ["doubtful_entry"]
    assert_in_words(report.findings[0])


async def test_a_secret_in_plain_text_is_told_without_it(path: Path) -> None:
    entry = speaking(TOOL, env={"GITHUB_TOKEN": "ghp_canary0123456789canary0123456789"})
    report = await of_file(path, {"mcpServers": {"it": entry}})
    [finding] = report.findings
    assert finding.code == "plain_secret"
    assert '"${GITHUB_TOKEN}"' in finding.remedy
    assert "canary" not in str(report)
    assert not report.is_ok


async def test_a_file_with_secrets_that_others_can_read_is_told(path: Path) -> None:
    entry = speaking(TOOL, env={"GITHUB_TOKEN": "ghp_canary0123456789canary0123456789"})
    report = await of_file(path, {"mcpServers": {"it": entry}}, mode=0o644)
    assert codes(report.findings) == ["plain_secret", "readable_by_others"]
    assert f"`chmod 600 {path}`" in report.findings[1].remedy


async def test_a_file_without_secrets_may_be_read_by_anybody(path: Path) -> None:
    report = await of_file(path, {"mcpServers": {"it": speaking(TOOL)}}, mode=0o644)
    assert report.findings == ()
    assert report.config == str(path)


async def test_two_entries_of_the_same_server_are_told() -> None:
    report = await report_of({"one": speaking(TOOL), "two": speaking(TOOL)})
    assert codes(report.findings)[0] == "same_server_twice"
    assert "`pegboard remove two`" in report.findings[0].remedy


async def test_two_entries_with_other_settings_are_not_the_same() -> None:
    one, two = speaking(TOOL, env={"PLACE": "here"}), speaking(TOOL, env={"PLACE": "there"})
    assert "same_server_twice" not in codes((await report_of({"one": one, "two": two})).findings)


async def test_a_server_that_is_switched_off_is_not_started_and_told_only_if_it_is_named(
    tmp_path: Path,
) -> None:
    mark = tmp_path / "started"
    entry = speaking(TOOL, before=f"open({str(mark)!r}, 'w').close()", disabled=True)
    assert (await report_of({"it": entry})).findings == ()
    report = await report_of({"it": entry}, names=["it"])
    assert codes(report.findings) == ["disabled"]
    assert "`pegboard enable it`" in report.findings[0].remedy
    assert report.servers[0].state == "disabled"
    assert report.is_ok
    assert not mark.exists()


async def test_only_the_named_servers_are_looked_at() -> None:
    servers = {"one": {"command": "nonesuch"}, "two": speaking(TOOL), "off": {"disabled": True}}
    report = await report_of(servers, names=["two"])
    assert [it.server for it in report.servers] == ["two"]
    assert "command_not_found" not in codes(report.findings)


async def test_a_name_that_no_server_has_is_an_error() -> None:
    with pytest.raises(ServerNotFoundError) as caught:
        await report_of({"one": {"command": "x"}}, names=["two"])
    assert caught.value.known == ("one",)


async def test_a_store_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    store.write_bytes(b"This is no database, however long one looks at it." * 100)
    report = await report_of({"it": speaking(TOOL)}, store=str(store))
    [finding] = report.findings
    assert finding.code == "store_unusable"
    assert f"`pegboard store check --store {store}`" in finding.remedy


async def test_a_store_that_nobody_knows_how_to_open_is_told_without_its_password() -> None:
    report = await report_of({"it": speaking(TOOL)}, store="nonesuch://me:canary-pass@host/db")
    assert codes(report.findings) == ["store_unusable"]
    assert "canary" not in str(report)


async def test_a_store_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    report = await report_of({"it": speaking(TOOL)}, store=str(tmp_path / "file" / "store.db"))
    assert codes(report.findings) == ["store_unusable"]


async def test_a_store_that_is_not_there_yet_is_not_made(tmp_path: Path) -> None:
    report = await report_of({"it": speaking(TOOL)}, store=str(tmp_path / "new" / "store.db"))
    assert report.findings == ()
    assert os.listdir(tmp_path) == []  # noqa: PTH208 - short, and of this test alone


@pytest.mark.skipif(sys.platform == "win32", reason="There are no such modes.")
async def test_a_folder_of_pegboard_that_others_can_look_into_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("STATE", "DATA", "CACHE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name))
        (tmp_path / name / "pegboard").mkdir(parents=True)
        (tmp_path / name / "pegboard").chmod(0o700)
    store = str(tmp_path / "store.db")
    assert (await report_of({"it": speaking(TOOL)}, store=store)).findings == ()
    opened = tmp_path / "STATE" / "pegboard"
    opened.chmod(0o777)
    [finding] = (await report_of({"it": speaking(TOOL)}, store=store)).findings
    assert (finding.code, finding.place) == ("readable_by_others", str(opened))
    assert f"`chmod -R go= {opened}`" in finding.remedy


async def test_a_broken_skill_is_told_with_a_remedy_and_stops_nothing(path: Path) -> None:
    write(path.parent / "skills", "bad", "name: other\ndescription: x")
    write(path.parent / "skills", "good")
    report = await of_file(path, {"mcpServers": {}, "skills": "./skills"})
    [finding] = report.findings
    assert (finding.code, finding.severity) == ("bad_skill", "warning")
    assert "its `name` is 'other'" in finding.what
    assert finding.remedy.startswith("Rename the folder to 'other'")
    assert finding.place == str(path.parent / "skills/bad")
