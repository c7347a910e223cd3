"""The version of Pegboard that is installed; it comes from the git tag."""

import os
import sys

__all__ = ["installed_version"]

_BEFORE, _BEHIND = "pegboard-", ".dist-info"


def installed_version() -> str:
    """Return the version that the installer wrote down.

    `pegboard --version`, `pegboard.__version__`, the gateway's ``serverInfo`` and the
    ``clientInfo`` that servers are sent all take it from here.
    """
    # Importing `importlib.metadata` takes a tenth of a second, longer than most commands run. The
    # version is also in the name of the folder that it would read.
    for folder in sys.path:
        try:
            names = os.listdir(folder or ".")  # noqa: PTH208 - pathlib costs more than all of this
        except OSError:
            continue
        for name in names:
            if name.startswith(_BEFORE) and name.endswith(_BEHIND):
                return name[len(_BEFORE) : -len(_BEHIND)]
    # In a zip file, for example, there is no such folder.
    from importlib.metadata import version  # noqa: PLC0415

    return version("pegboard")
