"""CUDA C that is generated for the layouts at hand, by what it computes."""
