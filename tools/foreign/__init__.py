"""Reads and writes the files of other libraries: snapshots of PyTorch's, logs of RMM's, timelines of Chrome's."""
