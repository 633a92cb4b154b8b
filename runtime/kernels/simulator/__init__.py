"""Compiling kernels for this machine, and running them."""
