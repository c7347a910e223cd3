"""A host process for the tests to kill: `python -m tests.upstream.host MODE MARKER [shell]`."""

import os
import signal
import sys

import anyio
import anyio.to_thread
from anyio.from_thread import start_blocking_portal

from pegboard.upstream.stdio.guardian import guardian
from pegboard.upstream.stdio.process import ServerProcess, spawn
from pegboard.upstream.stdio.subreaper import SubreaperProcess, subreaper
from tests.upstream.processes import alive, daemon, daemons, light, shell, until

HARD_TO_END = {
    "stubborn": "trap '' TERM; while :; do sleep 1; done",
    "leaves a grandchild": "sleep 1000 & exit",
    "has a grandchild": "sleep 1000 & cat",
    "lets a grandchild go": "setsid sleep 1000 & cat",
    "frozen": "kill -STOP $$; cat",
}


def main(mode: str, marker: str, kind: str = "subreaper") -> None:
    if kind == "shell":
        # Without an interpreter the guardian is the shell, as it is without Linux.
        sys.executable = ""
    # Ignored where the tests are a background job of a shell.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    match mode:
        case "all":
            anyio.run(serve_all, marker)
        case "guardian killed":
            anyio.run(lose_guardian, marker)
        case "forked":
            forked(marker)
        case "daemons":
            anyio.run(serve_daemons, marker)
        case _:
            raise SystemExit(f"Unknown mode: {mode}")


def guardian_pid() -> int | None:
    return subreaper.pid or guardian.pid


async def serve_daemons(marker: str) -> None:
    async with spawn(daemon(marker, number=8)) as process:
        await until(lambda: len(daemons(marker)) == 8)
        assert isinstance(process.launched, SubreaperProcess)
        say(f"{guardian_pid()} {process.launched.keeper}")
        await anyio.sleep_forever()


async def serve_all(marker: str) -> None:
    async with anyio.create_task_group() as tasks:
        for script in HARD_TO_END.values():
            await tasks.start(keep, script, marker)
        async with spawn(light(marker)):
            # Its leader, and for three of them a grandchild.
            await until(lambda: len(alive(marker)) >= 10)
            say("ready")
            await anyio.sleep_forever()


async def keep(
    script: str, marker: str, *, task_status: anyio.abc.TaskStatus[ServerProcess]
) -> None:
    async with spawn(shell(script, marker=marker)) as process:
        task_status.started(process)
        await anyio.sleep_forever()


async def lose_guardian(marker: str) -> None:
    async with spawn(shell("exec cat", marker=marker)):
        lost = guardian_pid()
        assert lost is not None
        os.kill(lost, signal.SIGKILL)
        # It dies a moment later; before that the host cannot know.
        await anyio.to_thread.run_sync(os.waitid, os.P_PID, lost, os.WEXITED | os.WNOWAIT)
        async with spawn(shell("exec cat", marker=marker)):
            assert guardian_pid() not in {lost, None}
            say("ready")
            await anyio.sleep_forever()


def forked(marker: str) -> None:
    """Fork with a server running; the child serves too, then the parent waits to be killed."""
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(spawn(shell("exec cat", marker=marker))) as kept,
        portal.wrap_async_context_manager(spawn(shell("exec cat", marker=marker))) as ended,
    ):
        child = os.fork()
        if child == 0:
            anyio.run(serve_in_child, marker, kept.mark)
            signal.pause()
        portal.call(ended.stop)
        say(f"parent: {guardian_pid()} {ended.describe_exit()}")
        signal.pause()


async def serve_in_child(marker: str, mark_of_parent: str) -> None:
    assert guardian_pid() is None
    async with spawn(shell("exec cat", marker=marker)) as process:
        assert process.mark.partition(".")[0] != mark_of_parent.partition(".")[0]
        pid = guardian_pid()
    say(f"child {os.getpid()}: {pid} {process.describe_exit()}")


def say(words: str) -> None:
    print(words, flush=True)  # noqa: T201 - the test listens


if __name__ == "__main__":
    main(*sys.argv[1:])
