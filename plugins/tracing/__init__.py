"""Traces of what allocators do: what one holds, the file's format, its writer and reader, and what records into it."""
