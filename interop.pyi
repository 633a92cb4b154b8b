# What type checkers know of ``import cuplug.interop``: the package ``runtime/interop``, which ``__init__.py`` puts
# there at run time.
from .runtime.interop import LIBRARIES as LIBRARIES
from .runtime.interop import install as install
