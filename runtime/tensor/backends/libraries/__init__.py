"""NVIDIA's libraries by their C interfaces: cuBLAS, cuDNN, NCCL."""
