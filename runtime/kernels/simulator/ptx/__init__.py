"""Inline PTX on the simulator: ``asm`` statements become C++, instruction by instruction (``headers/ptx.h``)."""
