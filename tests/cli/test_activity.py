"""The lines that `pegboard serve` shows for clients, calls and servers."""

import io
import json
import re
import signal
import threading
import urllib.request
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pegboard.cli.activity import ShownActivity, activity_on
from pegboard.gateway.request import Client
from pegboard.model import CallRecord
from pegboard.model.principal import Principal
from pegboard.observe.server_log import LogLine
from tests.cli.handy import Home, Terminal

CALL = CallRecord(
    tool="mcp_notes_add",
    started=1_790_000_000.0,
    duration=0.0123,
    outcome="ok",
    meta={"subject": "the build"},
    arguments={"text": "never shown"},
)


class Screen(io.StringIO):
    """A terminal in memory."""

    def isatty(self) -> bool:
        return True


def shown(*calls: CallRecord, colours: bool = False) -> list[str]:
    stream = io.StringIO()
    activity = ShownActivity(stream, colours=colours)
    for it in calls:
        activity.call(it)
    activity.close()
    return stream.getvalue().splitlines()


def test_a_call_is_one_line_without_its_arguments() -> None:
    failed = CallRecord("mcp_notes_add", 1_790_000_000.0, 12.0, "raised", "connection_lost")
    one, other = shown(CALL, failed)
    assert re.fullmatch(r"\d\d:\d\d:\d\d  call    mcp_notes_add +ok +12 ms  the build", one)
    assert re.fullmatch(
        r"\d\d:\d\d:\d\d  call    mcp_notes_add +raised connection_lost +12.0 s", other
    )


def test_a_client_and_a_server_are_one_line_each_and_cannot_steer_the_terminal() -> None:
    stream = io.StringIO()
    activity = ShownActivity(stream, colours=False)
    info = {"name": "evil\x1b[2J\nclient", "version": 3}
    activity.client(
        Client(principal=Principal(subject="me"), era="legacy", version="2025-06-18", info=info)
    )
    activity.server(
        LogLine(at=datetime.now(UTC), server="notes", event="lost", text="it \x1b]0;broke")
    )
    activity.close()
    client, server = stream.getvalue().splitlines()
    assert re.search(r"client  evil\\u001b\[2J client +connected +me$", client)
    assert re.search(r"server  notes +lost +it \\u001b\]0;broke$", server)


def test_a_server_that_fails_is_told_once_and_named_once(tmp_path: Path) -> None:
    home = Home(tmp_path)
    gone = {"url": "http://127.0.0.1:1/mcp"}
    home.configure({"handy": home.entry(), "weather": gone, "charts": {"command": "no-such-one"}})
    with Terminal(home, ["serve", "--port", "0"]) as terminal:
        terminal.until(r"For the file of your client")
        said = terminal.until(
            r"(?s)weather +failed.*charts +failed|charts +failed.*weather +failed"
        )
        terminal.process.send_signal(signal.SIGTERM)
        terminal.end()
    assert "connect_failed" not in said
    assert "Server 'weather'" not in said
    assert re.search(r"weather +failed +http://127.0.0.1:1/mcp was not reached", said)
    assert re.search(r"charts +failed +the command 'no-such-one' was not found", said)


def test_an_outcome_is_coloured_only_if_wanted() -> None:
    assert "\x1b" not in shown(CALL)[0]
    assert "\x1b[32mok        \x1b[0m" in shown(CALL, colours=True)[0]


def test_it_is_shown_on_a_terminal_unless_the_operator_chose_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert activity_on(Screen(), wanted=None, is_quiet_here=False) is not None
    assert activity_on(Screen(), wanted=None, is_quiet_here=True) is None
    assert activity_on(Screen(), wanted=False, is_quiet_here=False) is None
    assert activity_on(io.StringIO(), wanted=None, is_quiet_here=False) is None
    assert activity_on(io.StringIO(), wanted=True, is_quiet_here=True) is not None


def test_a_slow_terminal_skips_lines_and_holds_up_no_call() -> None:
    entered, go_on = threading.Event(), threading.Event()

    class Slow(io.StringIO):
        def write(self, text: str, /) -> int:
            entered.set()
            assert go_on.wait(5)
            return super().write(text)

    stream = Slow()
    activity = ShownActivity(stream, colours=False)
    activity.call(CALL)
    assert entered.wait(5)
    for _ in range(1_500):
        activity.call(CALL)
    go_on.set()
    activity.close()
    lines = stream.getvalue().splitlines()
    assert len(lines) == 1_002
    assert lines[-1] == "… 500 lines skipped"


def test_a_terminal_that_is_gone_ends_nothing() -> None:
    stream = io.StringIO()
    activity = ShownActivity(stream, colours=False)
    stream.close()
    activity.call(CALL)
    activity.close()


def introduce(shown: str, name: str) -> None:
    """Connect to the gateway whose address is shown."""
    found = re.search(r"http://\S+/mcp", shown)
    assert found is not None
    info = {"name": name, "version": "1.0"}
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info}
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    headers = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
    request = urllib.request.Request(found[0], json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=10) as response:
        assert response.status == 200


@pytest.mark.parametrize("option", ["--activity", "--quiet"])
def test_serving_at_a_terminal_shows_servers_and_calls_unless_quiet(
    tmp_path: Path, option: str
) -> None:
    home = Home(tmp_path)
    words = ["serve", "--port", "0", *([option] if option == "--quiet" else [])]
    with Terminal(home, words) as terminal:
        terminal.until("For the file of your client")
        if option == "--activity":
            terminal.until(r"server  handy +ready")
        assert home.run("call", "mcp_handy_echo", "text=secret words").returncode == 0
        if option == "--activity":
            assert "\x1b" not in terminal.until(r"call    mcp_handy_echo +ok +\d+ ms")
        introduce(terminal.shown, "inspector")
        if option == "--activity":
            terminal.until(r"client  inspector 1\.0 +connected")
        terminal.process.terminate()
        assert terminal.end() == 0
    assert "secret words" not in terminal.shown
    assert ("server  handy" in terminal.shown) is (option == "--activity")
