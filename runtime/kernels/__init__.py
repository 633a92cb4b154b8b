"""Kernels: CUDA C++ source compiled, loaded and launched, on GPUs and on the simulator.

The rooms, lowest first; none imports from one behind it:

- ``source/`` reads CUDA C: its kernels, variables and included files, and what of it concerns the host alone.
- ``compile/`` keeps what compilers made on disk, and compiles for GPUs, by NVRTC or nvcc.
- ``simulator/`` translates a source to C++ for this machine, compiles it against ``headers/`` into a shared library,
  and runs it by the engine in ``headers/engine/``.
- ``launch/`` makes parameter blocks of Python's objects, and launches.

On top stand ``source_module.py``, whose ``SourceModule`` compiles when it is made and is loaded where it is used, and
``texture.py``: memory that kernels look at by texture and surface objects.
"""

from .launch.global_symbol import GlobalSymbol
from .launch.kernel_function import Function, PreparedLaunch
from .source_module import SourceModule
from .texture import Texture, TextureReference

__all__ = ["Function", "GlobalSymbol", "PreparedLaunch", "SourceModule", "Texture", "TextureReference"]
