"""Arithmetic and comparisons beyond the table."""
