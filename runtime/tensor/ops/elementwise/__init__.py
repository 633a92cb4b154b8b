"""Element-wise operations: how one is run, and the functions of the table."""
