"""Which version this is, without the tenth of a second that `importlib.metadata` takes."""

import os
import sys

__all__ = ["installed_version"]

_BEFORE, _BEHIND = "pegboard-", ".dist-info"


def installed_version() -> str:
    """Return the version that is installed, as the folder beside the packages is named."""
    for folder in sys.path:
        try:
            names = os.listdir(folder or ".")  # noqa: PTH208 - pathlib costs more than all of this
        except OSError:
            continue
        for name in names:
            if name.startswith(_BEFORE) and name.endswith(_BEHIND):
                return name[len(_BEFORE) : -len(_BEHIND)]
    import pegboard  # noqa: PLC0415 - installed in a way that only importlib knows

    return pegboard.__version__
