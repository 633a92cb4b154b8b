"""Tensors on several devices, and lists of tensors at once."""
