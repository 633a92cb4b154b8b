"""From Python's arguments to a launch."""
