"""Arithmetic on one core: a search is too short to be shared, and waits for who is not there."""

import os
from importlib import import_module

__all__ = ["calculate_on_one_core"]

# Read by the libraries that NumPy may be built with, when it is first imported.
_SETTINGS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")


def calculate_on_one_core() -> None:
    """Import NumPy so that it starts no threads, unless the environment says how many.

    On a busy machine a search of a millisecond would wait for twenty until its second thread had
    its turn. The environment stays as it was: the servers that are started inherit it.
    """
    if any(name in os.environ for name in _SETTINGS):
        return
    os.environ.update(dict.fromkeys(_SETTINGS, "1"))
    try:
        import_module("numpy")
    finally:
        for name in _SETTINGS:
            del os.environ[name]
