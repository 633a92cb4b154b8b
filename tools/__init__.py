"""Command line: record, summary, dump, replay and their kin."""
