"""The installed version of Pegboard, which comes from the git tag."""

import os
import sys

__all__ = ["installed_version"]

_PREFIX, _SUFFIX = "pegboard-", ".dist-info"


def installed_version() -> str:
    """Return the version that the installer recorded.

    `pegboard --version`, `pegboard.__version__`, the gateway's ``serverInfo`` and the
    ``clientInfo`` that Pegboard sends to servers all come from here.
    """
    # Importing `importlib.metadata` takes a tenth of a second, longer than most commands run. The
    # version is also in the name of the folder that it would read.
    for folder in sys.path:
        try:
            names = os.listdir(folder or ".")  # noqa: PTH208 - pathlib costs more than all of this
        except OSError:
            continue
        for name in names:
            if name.startswith(_PREFIX) and name.endswith(_SUFFIX):
                return name[len(_PREFIX) : -len(_SUFFIX)]
    # In a zip file, for example, there is no such folder.
    from importlib.metadata import version  # noqa: PLC0415

    return version("pegboard")
