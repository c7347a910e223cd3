"""Every part of Pegboard says the same version."""

import sys
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

import pegboard
from pegboard.cli.main import main
from pegboard.gateway import Gateway
from pegboard.version import installed_version
from tests.gateway.clients import Caller
from tests.upstream.board_servers import Bench, hub_of, memory


@pytest.fixture
def at_the_prompt(capsys: pytest.CaptureFixture[str]) -> str:
    """What `pegboard --version` says."""
    assert main(["--version"]) == 0
    return capsys.readouterr().out.removeprefix("pegboard ").strip()


def test_the_prompt_and_the_library_say_what_the_installer_wrote_down(at_the_prompt: str) -> None:
    assert at_the_prompt == pegboard.__version__ == version("pegboard")


@pytest.mark.parametrize("protocol", ["2026-07-28", "legacy"])
async def test_a_server_is_told_the_version_of_its_client(
    protocol: str, at_the_prompt: str
) -> None:
    bench = Bench(one=lambda _: "1")
    async with hub_of(memory("it", bench, protocol=protocol)) as hub:
        await hub.call("mcp_it_one", {})
    assert bench.context is not None
    params = bench.context.session.client_params
    assert params is not None
    assert params.client_info.name == "pegboard"
    assert params.client_info.version == at_the_prompt


async def test_a_client_is_told_the_version_of_the_gateway(at_the_prompt: str) -> None:
    async with hub_of() as hub, Gateway(hub) as gateway:
        found = await Caller(gateway).send("server/discover")
        told = {"name": "pegboard", "version": at_the_prompt}
        assert found["_meta"]["io.modelcontextprotocol/serverInfo"] == gateway.info == told


def test_a_package_in_a_zip_file_has_its_version_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = tmp_path / "packed.zip"
    with zipfile.ZipFile(packed, "w") as file:
        file.writestr("pegboard-7.8.dist-info/METADATA", "Name: pegboard\nVersion: 7.8\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "missing"), str(packed)])
    assert installed_version() == "7.8"
