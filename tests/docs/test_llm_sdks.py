"""The page about LLM SDKs is true of the SDKs themselves."""

import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".tools/llm-sdks/bin/python"


@pytest.mark.interop("llm-sdks")
@pytest.mark.timeout(120)
def test_every_sdk_finds_and_calls_the_tool() -> None:
    trial = ROOT / "tests/docs/llm_sdks_trial.py"
    run = subprocess.run(
        [PYTHON, trial],
        cwd=ROOT,
        # The Pegboard of this checkout, also where several share the environments in `.tools`.
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert run.returncode == 0, run.stderr
    sun = "Oslo: sun for 3 days"
    guessed = '{"forecast":"a: sun for 3 days"}'
    assert json.loads(run.stdout) == {
        "openai": sun,
        "anthropic": sun,
        "gemini": sun,
        "langchain": sun,
        "pydantic-ai": guessed,
        "pydantic-ai, functions": guessed,
        "openai-agents": sun,
    }
