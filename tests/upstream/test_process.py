"""Server processes: started in words or not at all, watched, and ended with all their family."""

import logging
import os
import resource
import signal
import stat
import sys
import threading
from pathlib import Path

import anyio
import anyio.to_thread
import msgspec
import pytest

from pegboard.errors import ServerUnavailableError
from pegboard.upstream.stdio.launch import LaunchedProcess, launch
from pegboard.upstream.stdio.process import ServerProcess, spawn
from tests.upstream.processes import (
    alive,
    light,
    new_marker,
    python,
    server,
    shell,
    until,
    zombies,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

STUBBORN = "trap '' TERM; echo up >&2; while :; do sleep 0.05; done"


async def has_said(process: ServerProcess, word: str) -> None:
    await until(lambda: word in process.stderr_tail)


async def test_a_server_that_ends_with_its_input_is_not_signalled():
    marker = new_marker()
    async with spawn(shell("cat; exit 7", marker=marker), grace=60) as process:
        assert process.returncode is None
        assert process.describe_exit() == "is still running"
        with anyio.fail_after(5):
            await process.stop()
    assert process.exited.is_set()
    assert process.returncode == 7
    assert process.describe_exit() == "exited with code 7"
    assert alive(marker) == []
    await until(lambda: not zombies())


async def test_a_server_that_heeds_only_a_signal_is_told_to_end():
    async with spawn(
        shell("trap 'exit 5' TERM; echo up >&2; while :; do sleep 0.05; done"), grace=1
    ) as process:
        await has_said(process, "up")
    assert process.returncode == 5


async def test_a_server_that_heeds_nothing_is_killed():
    marker = new_marker()
    async with spawn(shell(STUBBORN, marker=marker), grace=0.1) as process:
        await has_said(process, "up")
        with anyio.fail_after(5):
            await process.stop()
    assert process.describe_exit() == "was killed by signal SIGKILL; its last words: up"
    assert alive(marker) == []
    await until(lambda: not zombies())


async def test_a_frozen_server_is_thawed_to_be_told():
    async with spawn(
        shell("trap 'exit 5' TERM; echo up >&2; kill -STOP $$; exit 6"), grace=1
    ) as process:
        await has_said(process, "up")
        with anyio.fail_after(5):
            await process.stop()
    assert process.returncode == 5


async def test_a_grandchild_dies_with_a_wrapper_that_ends_politely():
    marker = new_marker()
    async with spawn(shell("sleep 1000 & cat", marker=marker)) as process:
        await until(lambda: len(alive(marker)) >= 3)
        with anyio.fail_after(5):
            await process.stop()
        assert alive(marker) == []


async def test_a_grandchild_that_left_the_group_dies_too():
    marker = new_marker()
    async with spawn(
        shell("setsid sleep 1000 & setsid sh -c 'trap \"\" TERM; sleep 1000' & cat", marker=marker)
    ):
        await until(lambda: len(alive(marker)) >= 4)
    assert alive(marker) == []


async def test_the_family_of_a_server_that_was_killed_is_ended_at_once():
    marker = new_marker()
    async with spawn(shell("sleep 1000 & setsid sleep 1000 & cat", marker=marker)) as process:
        await until(lambda: len(alive(marker)) >= 4)
        os.kill(process.pid, signal.SIGKILL)
        with anyio.fail_after(5):
            await process.exited.wait()
        assert process.describe_exit() == "was killed by signal SIGKILL"
        await until(lambda: alive(marker) == [])
    await until(lambda: not zombies())


async def test_a_grandchild_that_ignores_the_signal_is_killed_when_its_parent_ends():
    marker = new_marker()
    async with spawn(shell(f"({STUBBORN}) & exit 3", marker=marker), grace=0.1) as process:
        with anyio.fail_after(5):
            await process.exited.wait()
        await until(lambda: alive(marker) == [])
    assert process.returncode == 3


async def test_stopping_is_the_same_from_any_task_and_any_number_of_times():
    async with spawn(shell("exec cat")) as process:
        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(process.stop)
        with anyio.fail_after(5):
            await process.stop()
        assert process.returncode == 0


async def test_stopping_goes_on_when_its_caller_is_cancelled():
    async with spawn(shell(STUBBORN), grace=0.1) as process:
        await has_said(process, "up")
        with anyio.CancelScope() as scope:
            scope.cancel()
            await process.stop()
        assert process.returncode == -signal.SIGKILL


async def test_a_cancelled_body_leaves_nothing_behind():
    marker = new_marker()
    with anyio.fail_after(5), anyio.CancelScope() as scope:
        async with spawn(shell("sleep 1000 & cat", marker=marker)):
            await until(lambda: len(alive(marker)) >= 3)
            scope.cancel()
            await anyio.sleep_forever()
    assert alive(marker) == []


@pytest.mark.parametrize("part", range(8))
async def test_a_start_that_is_cancelled_half_way_leaves_nothing_behind(part: int):
    marker = new_marker()
    with anyio.move_on_after(part / 1000):
        async with spawn(shell("exec cat", marker=marker)):
            await anyio.sleep_forever()
    await anyio.to_thread.run_sync(lambda: None)
    await until(lambda: alive(marker) == [] and not zombies())


async def test_fifty_servers_start_and_end_together():
    marker = new_marker()
    all_here = anyio.Event()
    started = 0

    async def one() -> None:
        nonlocal started
        async with spawn(shell("exec cat", marker=marker)) as process:
            started += 1
            if started == 50:
                await until(lambda: len(alive(marker)) == 50)
                all_here.set()
            await all_here.wait()
        assert process.returncode == 0

    with anyio.fail_after(15):
        async with anyio.create_task_group() as tasks:
            for _ in range(50):
                tasks.start_soon(one)
    assert alive(marker) == []
    await until(lambda: not zombies())


def test_a_server_outlives_the_threads_and_the_loop_that_asked_for_it():
    # Linux takes the end of the thread that forked for the death of the parent.
    started: list[LaunchedProcess] = []

    async def start() -> None:
        started.append(await launch(shell("exec cat"), "lasting"))

    loop = threading.Thread(target=anyio.run, args=(start,))
    loop.start()
    loop.join()
    (process,) = started
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdin.write(b"still here")
    assert process.stdout.read(10) == b"still here"
    process.stdin.close()
    assert process.wait(5) == 0
    process.stdout.close()
    process.stderr.close()
    process.release()


async def test_the_environment_is_ours_in_a_safe_part_and_what_the_configuration_says(
    monkeypatch: pytest.MonkeyPatch,
):
    for name, value in {
        "HOME": "/home/sample",
        "LC_TIME": "C",
        "XDG_CACHE_HOME": "/cache",
        "API_KEY": "secret",
        "TERM": "() { :; }",
    }.items():
        monkeypatch.setenv(name, value)
    config = msgspec.structs.replace(
        python("import os, sys; sys.stderr.write(repr(dict(os.environ)))"),
        env={"TOKEN": "given", "LC_TIME": "other"},
    )
    async with spawn(config) as process:
        with anyio.fail_after(5):
            await process.exited.wait()
    seen = eval(msgspec.structs.replace(config, env={}).redact(process.stderr_tail))
    assert seen["HOME"] == "/home/sample"
    assert seen["LC_TIME"] == "other"
    assert seen["XDG_CACHE_HOME"] == "/cache"
    assert seen["TOKEN"] == "given"
    assert seen["PEGBOARD_CHILD"] == process.mark
    assert not {"API_KEY", "TERM"} & set(seen)


async def test_certificates_proxies_and_indexes_are_inherited_unless_that_is_switched_off(
    monkeypatch: pytest.MonkeyPatch,
):
    network = {
        "SSL_CERT_FILE": "/ca.pem",
        "NODE_EXTRA_CA_CERTS": "/ca.pem",
        "https_proxy": "http://proxy.example.com:3128",
        "NO_PROXY": "localhost",
        "UV_DEFAULT_INDEX": "https://pypi.example.com/simple",
        "PIP_INDEX_URL": "https://pypi.example.com/simple",
        "npm_config_registry": "https://npm.example.com",
    }
    for name, value in network.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("UV_PUBLISH_TOKEN", "secret")
    script = "import os, sys; sys.stderr.write(' '.join(os.environ))"
    shared = msgspec.structs.replace(python(script), shared_env={"NO_PROXY": "*", "LEVEL": "1"})
    seen: dict[bool, set[str]] = {}
    for inherits in (True, False):
        config = msgspec.structs.replace(shared, inherit_network=inherits)
        async with spawn(config) as process:
            with anyio.fail_after(5):
                await process.exited.wait()
        seen[inherits] = set(process.stderr_tail.split())
    assert seen[True] >= {*network, "LEVEL"}
    assert seen[False] & {*network, "LEVEL"} == {"NO_PROXY", "LEVEL"}
    assert "UV_PUBLISH_TOKEN" not in seen[True]


async def test_the_working_directory_is_used_also_to_find_the_command(tmp_path: Path):
    script = tmp_path / "run me"
    script.write_text("#!/bin/sh\npwd >&2\n", "utf-8")
    script.chmod(0o755)
    config = msgspec.structs.replace(server("./run me"), cwd=str(tmp_path))
    async with spawn(config) as process:
        with anyio.fail_after(5):
            await process.exited.wait()
    assert process.stderr_tail == f"{tmp_path}\n"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("no-such-command", "'no-such-command' was not found. Check its `command`"),
        ("npx", "'npx' was not found. Install Node.js"),
        ("uvx", "'uvx' was not found. Install uv"),
        ("docker", "'docker' was not found. Install Docker"),
        ("/no/such/file", "there is no file '/no/such/file'"),
        ("/tmp", "'/tmp' is not an executable file"),
        ("./not-there", "there is no file"),
        ("npx -y server", "was not found. Put the program alone into `command`"),
        ("/no/such/file --port 1", "--port 1'. Put the program alone into `command`"),
    ],
)
async def test_a_command_that_cannot_be_run_is_named(command: str, words: str):
    config = msgspec.structs.replace(server(command), env={"PATH": "/nowhere"})
    with pytest.raises(ServerUnavailableError) as caught:
        async with spawn(config):
            pass
    assert caught.value.server == "sample"
    assert words in str(caught.value)
    assert str(caught.value).endswith((".", "path."))


async def test_a_file_without_the_right_to_run_is_named(tmp_path: Path):
    script = tmp_path / "server"
    script.write_text("#!/bin/sh\n", "utf-8")
    script.chmod(stat.S_IRUSR)
    with pytest.raises(ServerUnavailableError, match="is not an executable file"):
        async with spawn(server(str(script))):
            pass


async def test_a_missing_working_directory_is_named():
    config = msgspec.structs.replace(shell("exec cat"), cwd="/no/such/place")
    with pytest.raises(ServerUnavailableError, match=r"'/no/such/place' does not exist\.$"):
        async with spawn(config):
            pass


@pytest.mark.parametrize(
    "config",
    [
        server("sh", "-c", "x" * 200_000),
        msgspec.structs.replace(server("sh"), env={"A=B": "c"}),
        server("sh", "\ud800"),
    ],
    ids=["too long", "bad name", "surrogate"],
)
async def test_what_the_system_refuses_is_an_error_of_ours(config: object):
    with pytest.raises(ServerUnavailableError, match="'sample' cannot be started: "):
        async with spawn(config):  # pyright: ignore[reportArgumentType]
            pass


async def test_too_many_open_files_are_named_as_the_reason():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    open_now = await anyio.to_thread.run_sync(lambda: len(list(Path("/proc/self/fd").iterdir())))
    resource.setrlimit(resource.RLIMIT_NOFILE, (open_now + 4, hard))
    try:
        with pytest.raises(ServerUnavailableError, match="too many open files"):
            async with spawn(shell("exec cat")):
                pass
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    await until(lambda: not zombies())


async def test_the_last_words_are_kept_without_secrets_and_the_flood_does_not_block():
    config = msgspec.structs.replace(
        python(
            "import os, sys\n"
            "sys.stderr.write(('x' * 99 + chr(10)) * 50_000)\n"
            "sys.stderr.write('key ' + os.environ['KEY'])\n"
            "sys.exit(4)"
        ),
        env={"KEY": "very-secret"},
    )
    async with spawn(config) as process:
        with anyio.fail_after(5):
            await process.exited.wait()
    assert len(process.stderr_tail) <= 8192
    assert process.stderr_tail.endswith("x\nkey ***")
    assert "very-secret" not in process.describe_exit()
    assert process.describe_exit().startswith("exited with code 4; its last words: …xxx")


async def test_what_npm_says_of_itself_is_not_among_the_last_words():
    code = "import sys; sys.exit('no key\\nnpm notice\\nnpm notice New major version of npm!')"
    async with spawn(python(code)) as process:
        with anyio.fail_after(5):
            await process.exited.wait()
    assert process.describe_exit() == "exited with code 1; its last words: no key"


async def test_nothing_in_the_last_words_steers_a_terminal():
    async with spawn(python("import sys; sys.exit('\\x1b[31mred\\x1b]0;title\\x07')")) as process:
        with anyio.fail_after(5):
            await process.exited.wait()
    assert process.describe_exit() == (
        r"exited with code 1; its last words: \u001b[31mred\u001b]0;title\u0007"
    )


async def test_of_an_error_of_npm_the_last_words_are_what_is_wrong():
    said = (
        "npm error code E404\n"
        "npm error 404 Not Found - GET https://registry.example/nope\n"
        "npm error 404\n"
        "npm error 404  The requested resource 'nope@*' could not be found.\n"
        "npm error 404\n"
        "npm error 404 Note that you can also install from a\n"
        "npm error 404 tarball, folder, http url, or git url.\n"
        "npm error A complete log of this run can be found in: /home/me/.npm/_logs/debug-0.log"
    )
    async with spawn(python(f"import sys; sys.exit({said!r})")) as process:
        with anyio.fail_after(5):
            await process.exited.wait()
    assert process.describe_exit() == (
        "exited with code 1; its last words: npm error code E404\n"
        "npm error 404 Not Found - GET https://registry.example/nope\n"
        "npm error 404  The requested resource 'nope@*' could not be found."
    )


async def test_long_last_words_begin_with_a_whole_line():
    code = "import sys; sys.exit('the first line ' * 30 + chr(10) + 'the second line ' * 20)"
    async with spawn(python(code)) as process:
        with anyio.fail_after(5):
            await process.exited.wait()
    assert process.describe_exit().startswith("exited with code 1; its last words: …the second")


async def test_a_secret_that_was_cut_in_two_is_not_shown():
    secret = "s3cret" * 10
    config = msgspec.structs.replace(
        python(
            "import os, sys; sys.stderr.write(os.environ['KEY'] + 'x' * 8170 + chr(10) + 'end')"
        ),
        env={"KEY": secret},
    )
    async with spawn(config) as process:
        with anyio.fail_after(5):
            await process.exited.wait()
    assert process.stderr_tail == "end"


async def test_each_line_of_standard_error_is_logged_without_secrets(
    caplog: pytest.LogCaptureFixture,
):
    caplog.set_level(logging.DEBUG, logger="pegboard.upstream")
    config = msgspec.structs.replace(
        shell('printf "one\\ntwo $KEY\\n\\377\\nlast" >&2'), env={"KEY": "very-secret"}
    )
    async with spawn(config) as process:
        with anyio.fail_after(5):
            await process.exited.wait()
    lines = [
        (record.__dict__["server"], record.__dict__["line"])
        for record in caplog.records
        if record.name == "pegboard.upstream"
    ]
    assert "server_stderr: 'sample': two ***" in caplog.text
    assert lines == [("sample", "one"), ("sample", "two ***"), ("sample", "�"), ("sample", "last")]


async def test_a_server_stuck_in_writing_still_sees_the_end_of_its_input():
    script = "import sys; print('x' * 1_000_000, flush=True); sys.stdin.read(); sys.exit(9)"
    async with spawn(python(script), grace=60) as process:
        pass
    assert process.returncode == 9


async def test_a_server_stuck_in_writing_sees_it_also_when_its_caller_is_cancelled():
    script = "import sys; print('x' * 1_000_000, flush=True); sys.stdin.read(); sys.exit(9)"
    with anyio.fail_after(15), anyio.CancelScope() as scope:
        async with spawn(python(script), grace=60) as process:
            scope.cancel()
            await anyio.sleep_forever()
    assert process.returncode == 9  # pyright: ignore[reportPossiblyUnboundVariable]


async def test_the_light_server_ends_with_its_input():
    async with spawn(light(), grace=60) as process:
        with anyio.fail_after(5):
            await process.stop()
    assert process.returncode == 0
