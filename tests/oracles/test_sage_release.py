"""SAGE's registry is also in a package: what was read of it is what the package does."""

import importlib.util
import json
import subprocess
import sys
import types
from pathlib import Path

import pytest

from tests.conftest import TOOLS
from tests.oracles import outcomes, sage
from tests.oracles.surface import surface

RELEASE = "isage-agentic==0.1.0.5"
MODULE = "sage_libs/sage_agentic/agents/action/mcp_registry.py"


@pytest.mark.interop_full("oracles/registrytools")
def test_what_was_read_of_sage_is_what_its_package_does(tmp_path: Path) -> None:
    # Only this package: its module needs none of the others.
    command = [TOOLS / "bin" / "uv", "pip", "install", "--quiet", "--no-deps"]
    subprocess.run(
        [*command, "--python", sys.executable, "--target", tmp_path, RELEASE],
        check=True,
        timeout=50,
    )
    spec = importlib.util.spec_from_file_location("mcp_registry_of_sage", tmp_path / MODULE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    real = types.SimpleNamespace(MCPRegistry=module.MCPRegistry)
    with pytest.MonkeyPatch.context() as patch:
        # Pickle looks for the class there.
        patch.setitem(sys.modules, spec.name, module)
        found = {key: outcomes.run(it, real) for key, it in sage.TABLE.scenarios.items()}
    assert json.loads(json.dumps(found)) == json.loads(json.dumps(sage.TABLE.expected))
    assert surface(real) == sage.SURFACE
