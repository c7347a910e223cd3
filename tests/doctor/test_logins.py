"""Servers that require a login: no login page opens unless the caller shows it."""

from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from tests.doctor.patients import codes, diagnosis, report_of
from tests.upstream.oauth_servers import Accounts, browse, protected_server
from tests.upstream.test_login_addresses import leads_to, server_and_victim


@pytest.fixture(autouse=True)
def data_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))


async def test_a_server_that_would_open_a_browser_is_told_with_the_command_to_log_in() -> None:
    accounts = Accounts()
    async with protected_server(accounts) as url:
        finding = await diagnosis({"url": url, "oauth": True}, "login_needed")
    assert finding.remedy == "Run `pegboard doctor it --login` to log in."
    assert accounts.logins == 0


async def test_a_server_that_wants_a_login_and_has_no_oauth_is_told_to_get_it() -> None:
    async with protected_server(Accounts()) as url:
        finding = await diagnosis({"url": url}, "login_needed")
    assert '"oauth": true' in finding.remedy


async def test_a_person_who_is_shown_the_page_logs_in_and_the_next_look_finds_it_well() -> None:
    accounts, shown = Accounts(), list[str]()
    reports: list[list[str]] = []
    async with protected_server(accounts) as url, anyio.create_task_group() as group:

        def show(server: str, address: str) -> None:
            shown.append(server)
            group.start_soon(anyio.to_thread.run_sync, browse, address)

        servers = {"it": {"url": url, "oauth": {"scopes": ["use"]}}}
        reports.append(codes((await report_of(servers, on_login=show)).findings))
        reports.append(codes((await report_of(servers)).findings))
    assert reports == [["no_description"]] * 2
    assert (shown, accounts.logins) == (["it"], 1)


async def test_a_login_that_leads_to_another_internal_address_is_told_with_how_to_trust_it() -> (
    None
):
    async with server_and_victim() as (server, victim):
        leads_to(server, f"{victim.origin}/meta")
        entry = {"url": f"{server.origin}/mcp", "oauth": True}
        finding = await diagnosis(entry, "untrusted_address")
        assert victim.connections == 0
    assert '"trusted_hosts": ["127.0.0.2"]' in finding.remedy
