"""Turns what was computed into tables, text and files."""
