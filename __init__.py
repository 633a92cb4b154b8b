"""cuplug: a CUDA runtime for Python whose memory allocator is a plugin."""
