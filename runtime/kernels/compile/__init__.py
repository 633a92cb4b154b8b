"""Compiling for GPUs, and what compilers made, kept on disk."""
