import sys

import pytest

from pegboard.doctor import ProbeLimits
from tests.doctor.patients import (
    HELLO,
    TOOL,
    codes,
    diagnosis,
    found_in,
    python,
    report_of,
    shell,
    speaking,
)


async def test_nothing_is_found_in_a_server_that_is_ok() -> None:
    report = await report_of({"it": speaking(TOOL)})
    assert report.findings == ()
    assert report.is_ok
    [checkup] = report.servers
    assert (checkup.state, checkup.tools, checkup.era) == ("ready", 1, "legacy")
    assert checkup.protocol_version == "2025-06-18"
    assert checkup.tokens is not None
    assert checkup.startup_seconds is not None


async def test_a_python_module_that_is_missing_is_told_with_how_to_install_it() -> None:
    finding = await diagnosis(python("import pegboard_nonesuch.core"), "missing_module")
    assert f"{sys.executable} pegboard_nonesuch`" in finding.remedy


async def test_a_module_that_its_package_lacks_is_told_with_its_name_to_be_checked() -> None:
    entry = {"command": sys.executable, "args": ["-m", "pegboard.cli.demo.nothing"]}
    finding = await diagnosis(entry, "missing_module")
    assert "Check the name of the module `pegboard.cli.demo.nothing`" in finding.remedy
    assert "`pegboard` only if it is missing" in finding.remedy
    assert "pip install" not in finding.remedy


# What the real programs say, in their own words.
LAST_WORDS = {
    "Error: Cannot find module 'express'\nRequire stack:\n- /srv/node_modules/x.js": (
        "missing_module",
        "`npm install express`",
    ),
    "Error: Cannot find module '/srv/dist/index.js'\n    at node:internal/modules": (
        "missing_module",
        "npm run build",
    ),
    "npm error code E404\nnpm error 404  '@scope/nonesuch@*' is not in this registry.": (
        "package_not_found",
        "spelling",
    ),
    "No solution found:\n  Because nonesuch-mcp was not found in the package registry": (
        "package_not_found",
        "spelling",
    ),
    "npm error code EBADENGINE\nnpm error engine Unsupported engine\n"
    'npm error notsup Required: {"node":">=22"}': ("wrong_node", "node --version"),
    "file:///srv/index.js:3\nSyntaxError: Unexpected token '??='\n    at Loader (node:internal)": (
        "wrong_node",
        "newer Node.js",
    ),
    "ERROR: Package 'x' requires a different Python: 3.9.2 not in '>=3.11'": (
        "wrong_python",
        "--python",
    ),
    '  File "server.py", line 3\n    match it:\n          ^\nSyntaxError: invalid syntax': (
        "wrong_python",
        "--python",
    ),
    "error: GITHUB_TOKEN environment variable is required": (
        "missing_setting",
        '`"env": {"GITHUB_TOKEN": "${GITHUB_TOKEN}"}`',
    ),
    "Traceback\nKeyError: 'BRAVE_API_KEY'": ("missing_setting", "BRAVE_API_KEY"),
    "Please provide an API key": ("missing_setting", "`env` or `args`"),
    "Error: API key not provided": ("missing_setting", "`env` or `args`"),
    "usage: server [-h] --db PATH\nserver: error: the following arguments are required: --db": (
        "bad_arguments",
        "`args`",
    ),
    "Error: listen EADDRINUSE: address already in use :::3000": ("port_in_use", "another port"),
    "docker: Cannot connect to the Docker daemon at unix:///var/run/docker.sock.": (
        "docker_not_running",
        "docker info",
    ),
    "npm error code ENOTFOUND\nnpm error request to https://x failed": ("no_network", "online"),
    "PermissionError: [Errno 13] Permission denied: '/srv/db'": ("no_permission", "permission"),
}


@pytest.mark.parametrize("words", LAST_WORDS)
async def test_the_last_words_of_a_process_tell_the_cause(words: str) -> None:
    code, remedy = LAST_WORDS[words]
    entry = python("import sys; sys.stderr.write(sys.argv[1]); sys.exit(1)", words)
    assert remedy in (await diagnosis(entry, code)).remedy


async def test_a_variable_that_is_set_here_but_not_handed_on_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SOME_SECRET_KEY", "canary-of-the-shell")
    entry = shell("echo SOME_SECRET_KEY is not set >&2; exit 1")
    finding = await diagnosis(entry, "missing_setting")
    assert "sees only the variables that its entry names" in finding.remedy
    assert "canary" not in finding.remedy


async def test_a_process_that_ends_at_once_is_told_with_its_code_and_last_words() -> None:
    finding = await diagnosis(shell("echo the moon is full >&2; exit 7"), "exited")
    assert "exited with code 7" in finding.what
    assert "the moon is full" in finding.what


@pytest.mark.parametrize("end", ["exit 7", "exec sleep 60"])
async def test_the_notices_of_npm_are_not_the_last_words(end: str) -> None:
    script = f"echo the moon is full >&2; echo npm notice >&2; echo npm WARN x >&2; {end}"
    [finding] = await found_in(shell(script), seconds=2.0)
    assert finding.code in ("exited", "no_answer")
    assert "output says: the moon is full." in finding.what


async def test_a_script_that_python_does_not_find_is_told_with_where_to_look() -> None:
    entry = {"command": sys.executable, "args": ["/nowhere/missing.py"]}
    finding = await diagnosis(entry, "exited")
    assert "/nowhere/missing.py" in finding.what
    assert finding.remedy == "Correct the path in `args`."


async def test_a_path_that_only_a_shell_would_understand_is_told_as_the_cause() -> None:
    findings = await found_in({"command": sys.executable, "args": ["~/nowhere/missing.py"]})
    assert codes(findings) == ["shell_syntax", "exited"]
    assert "replaces `~`" in findings[1].what
    assert "`${userHome}/nowhere/missing.py`" in findings[1].remedy


async def test_what_the_system_refuses_to_start_is_told_with_its_reason() -> None:
    finding = await diagnosis(shell("exit", env={"LONG": "x" * 3_000_000}), "not_executable")
    assert "too long" in finding.what


async def test_a_process_that_closes_its_pipes_and_lives_on_is_told() -> None:
    entry = python("import os, time; os.close(1); os.close(0); time.sleep(60)")
    finding = await diagnosis(entry, "exited")
    assert "closed its pipes before it answered" in finding.what


async def test_a_process_that_is_killed_is_told_with_the_signal() -> None:
    finding = await diagnosis(shell("kill -9 $$"), "exited")
    # A line that no shell takes as it stands is not offered to be typed.
    assert finding.remedy == "Start its `command` with its `args` by hand to see more."
    assert "SIGKILL" in finding.what


async def test_a_process_that_never_answers_is_told_with_the_limit() -> None:
    entry = python("import sys; print('warming up', file=sys.stderr, flush=True); sys.stdin.read()")
    finding = await diagnosis(entry, "no_answer", seconds=1.0)
    assert "within 1 s" in finding.what
    assert "warming up" in finding.what
    assert '"timeouts": {"connect": 4}' in finding.remedy


async def test_the_limit_of_the_entry_counts_where_nobody_gives_another() -> None:
    entry = python("import sys; sys.stdin.read()", timeouts={"connect": 0.5})
    [finding] = (await report_of({"it": entry}, limits=ProbeLimits())).findings
    assert "within 0.5 s" in finding.what


async def test_a_program_that_prints_text_instead_of_messages_is_told() -> None:
    entry = python("import sys; print('Welcome!', flush=True); sys.stdin.read()")
    finding = await diagnosis(entry, "not_mcp", seconds=1.0)
    assert "'Welcome!'" in finding.what


async def test_a_program_that_prints_and_prints_is_told_before_its_time_is_up() -> None:
    entry = python(
        "for i in range(99): print('Welcome!', flush=True)\nimport sys; sys.stdin.read()"
    )
    await diagnosis(entry, "not_mcp")


async def test_a_program_that_serves_http_is_told_with_its_address() -> None:
    entry = shell("echo Server listening on http://127.0.0.1:3000/mcp >&2; cat >/dev/null")
    finding = await diagnosis(entry, "serves_http", seconds=1.0)
    assert '"url": "http://127.0.0.1:3000/mcp"' in finding.remedy


async def test_a_banner_of_a_server_that_works_is_a_warning() -> None:
    findings = await found_in(speaking(TOOL, before="print('-- patient 1.0 --', flush=True)"))
    assert codes(findings) == ["stdout_noise"]
    assert findings[0].severity == "warning"
    assert "-- patient 1.0 --" in findings[0].what


async def test_a_slow_start_is_told_with_its_time() -> None:
    report = await report_of({"it": speaking(TOOL)}, limits=ProbeLimits(slow=0.0))
    [finding] = report.findings
    assert finding.code == "slow_start"
    assert f"{report.servers[0].startup_seconds:.1f} s" in finding.what
    assert '"lazy": true' in finding.remedy
    assert report.is_ok


async def test_a_version_of_the_protocol_that_nobody_speaks_is_told() -> None:
    hello = {"result": {**HELLO, "protocolVersion": "1999-12-31"}}
    finding = await diagnosis(speaking(TOOL, hello=hello), "unsupported_protocol")
    assert "1999-12-31" in finding.what


async def test_a_handshake_that_is_refused_is_told_with_the_reason() -> None:
    hello = {"error": {"code": -32000, "message": "The licence has expired"}}
    finding = await diagnosis(speaking(TOOL, hello=hello), "handshake_refused")
    assert "The licence has expired." in finding.what


async def test_a_handshake_that_says_nonsense_is_told() -> None:
    await diagnosis(speaking(TOOL, hello={"result": {"hello": 1}}), "not_mcp")


async def test_a_crash_at_the_list_is_told_as_one() -> None:
    entry = speaking(TOOL, listed="print('boom', file=sys.stderr, flush=True); os._exit(4)")
    finding = await diagnosis(entry, "list_failed")
    assert "exited with code 4" in finding.what
    assert "boom" in finding.what


async def test_a_list_that_never_comes_is_told_with_the_limit() -> None:
    finding = await diagnosis(speaking(TOOL, listed="sys.stdin.read()"), "list_failed", seconds=2.0)
    assert "within 2 s" in finding.what


async def test_a_list_that_is_refused_is_told_with_the_reason() -> None:
    refuse = "answer(message, error={'code': -32603, 'message': 'No database'}); continue"
    finding = await diagnosis(speaking(TOOL, listed=refuse), "list_failed")
    assert "No database." in finding.what


async def test_a_server_without_tools_is_told() -> None:
    assert codes(await found_in(speaking())) == ["no_tools"]


async def test_a_server_that_says_that_it_has_no_tools_is_told() -> None:
    hello = {"result": {**HELLO, "capabilities": {"prompts": {}}}}
    assert codes(await found_in(speaking(TOOL, hello=hello))) == ["no_tools"]
