"""For each operation its NumPy function, its kernel and the gradient of each operand: one line of a table."""
