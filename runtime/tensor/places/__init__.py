"""The seam to what does the work: places, the tables of operations, and how one is run."""
