"""Which driver a command uses."""

from __future__ import annotations

import os
from collections.abc import Sequence

from ...allocators.errors import CuplugError
from ...plugins.manager import default_manager


def choose_driver(asked: str | None, libraries: Sequence[str] = ()) -> tuple[str, str]:
    """The selection of the driver to use, and what the user should know of the choice (empty: nothing).

    What was asked for, else ``CUPLUG_DRIVER``, else ``cuda`` where a device answers, else the simulator; under
    libraries of which one has no simulator, as all but PyCUDA, ``cuda`` in any case.

    Raises:
        PluginError: the driver that was asked for is unknown, or an option of it is.
    """
    if set(libraries) - {"pycuda"}:
        return asked or "cuda", ""
    manager = default_manager()
    asked = asked or os.environ.get("CUPLUG_DRIVER") or "auto"
    if asked != "auto":
        manager.check_driver(asked)
        return asked, ""
    try:
        driver = manager.make_driver("cuda")
        count = driver.device_count()
        driver.close()
    except CuplugError as error:
        why = " ".join(str(getattr(error, "message", error)).partition(";")[0].split())
    else:
        if count:
            return "cuda", ""
        why = "the CUDA driver finds no device"
    return "sim", f"No GPU can be used ({why}): using the simulator."
