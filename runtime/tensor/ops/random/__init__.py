"""Random numbers, choices, and the states of generators."""
