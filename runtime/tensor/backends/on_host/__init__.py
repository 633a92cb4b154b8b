"""NumPy does the work: on the CPU at once, on a simulated device as operations of its streams."""
