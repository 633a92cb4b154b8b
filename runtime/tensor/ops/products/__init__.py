"""Products of matrices and tensors, and norms."""
