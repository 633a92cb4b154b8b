"""Reading CUDA C: kernels, variables, parameters, included files, and code for the host."""
