"""Tensors outside of cuplug: other libraries' arrays, files, copies by pickle, print."""
