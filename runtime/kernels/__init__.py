"""Kernels: CUDA C++ source compiled, loaded and launched, on GPUs and on the simulator.

A ``SourceModule`` compiles when it is made (``nvidia.py`` for GPUs, ``host_compiler.py`` for the simulator) and looks
into the disk cache first (``cache.py``). Its ``Function`` objects convert arguments (``arguments.py``) and launch.

On the simulator the source is translated a little (``syntax.py``, ``translate.py``), compiled against the headers in
``host/`` into a shared library, loaded by ``host_loader.py`` and run by the engine (``engine.py``, ``host/engine/``).
"""

from .function import Function, PreparedLaunch
from .module import SourceModule
from .symbol import GlobalSymbol

__all__ = ["Function", "GlobalSymbol", "PreparedLaunch", "SourceModule"]
