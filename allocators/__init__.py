"""Allocation strategies: pure address arithmetic over an upstream. They know nothing of CUDA, pluggy or NumPy."""
