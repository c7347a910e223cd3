"""Signals that reach `pegboard serve` while it is still being imported."""

import os
import pty
import subprocess
import sys

import pytest

BEGIN = """
import os, signal, sys
from pegboard.cli.entry.signals import hear_signals_as_usual, hear_signals_early
hear_signals_early()
"""


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", BEGIN + program],
        capture_output=True,
        encoding="utf-8",
        timeout=30,
        check=False,
    )


def test_a_hangup_does_not_end_it_and_is_no_matter_of_its_children() -> None:
    ended = run(
        "import subprocess\n"
        "os.kill(os.getpid(), signal.SIGHUP)\n"
        "asked = 'import signal; print(signal.getsignal(signal.SIGHUP) is signal.SIG_DFL)'\n"
        "subprocess.run([sys.executable, '-c', asked])\n"
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "True\n", "")


def test_an_interrupt_ends_it_without_words_even_where_no_exception_could() -> None:
    ended = run(
        "class Deaf:\n"
        "    def __del__(self): os.kill(os.getpid(), signal.SIGINT)\n"
        "Deaf()\n"
        "print('goes on')\n"
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")


def test_an_interrupt_is_one_again_when_there_is_something_to_clean_up() -> None:
    ended = run(
        "hear_signals_as_usual()\n"
        "try: os.kill(os.getpid(), signal.SIGINT); signal.pause()\n"
        "except KeyboardInterrupt: print('cleaned up')\n"
    )
    assert (ended.returncode, ended.stdout) == (0, "cleaned up\n")


@pytest.mark.parametrize(("command", "hears"), [("serve", True), ("keys", False)])
def test_only_serving_waits_with_its_signals(command: str, hears: bool) -> None:
    ended = run(
        "signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"
        "from pegboard.cli.main import main\n"
        f"main([{command!r}, '--help'])\n"
        "print(signal.getsignal(signal.SIGHUP) is not signal.SIG_DFL, file=sys.stderr)\n"
    )
    assert ended.stderr == f"{hears}\n"


def test_whoever_wants_to_hear_of_no_hangup_hears_of_none() -> None:
    ended = run(
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "hear_signals_early()\n"
        "print(signal.getsignal(signal.SIGHUP) is signal.SIG_IGN)\n"
    )
    assert (ended.returncode, ended.stdout) == (0, "True\n")


@pytest.mark.parametrize(("later", "code"), [("", 130), ("hear_signals_as_usual()\n", 3)])
def test_a_hangup_ends_it_when_its_terminal_is_gone(later: str, code: int) -> None:
    ours, theirs = pty.openpty()
    program = (
        "import fcntl, os, signal, sys, termios\n"
        "os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"
        f"{BEGIN}{later}"
        "os.kill(os.getpid(), signal.SIGHUP)\n"
        "try: print('up', flush=True); signal.pause()\n"
        "except KeyboardInterrupt: sys.exit(3)\n"
    )
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdin=theirs, stdout=subprocess.PIPE) as started:
        os.close(theirs)
        assert started.stdout is not None
        assert started.stdout.readline() == b"up\n"
        os.close(ours)
        assert started.wait(30) == code
