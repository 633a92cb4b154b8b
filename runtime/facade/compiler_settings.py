"""``torch._dynamo.config`` and ``torch._inductor.config``: programs set what a compiler does, and there is none.

What is set is kept and has no effect. What was not set has no value.
"""

from types import SimpleNamespace
from typing import NoReturn

aot_inductor, cpp, cuda, trace, triton = (SimpleNamespace() for _ in range(5))
"""Groups of settings."""


def __getattr__(name: str) -> NoReturn:
    """A setting that the program reads before it has given it a value.

    Raises:
        AttributeError: always.
    """
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    raise AttributeError(
        f"the compiler's setting {name} is not part of cuplug, which compiles nothing: it has the value that the "
        "program gives it; use it after that"
    )
