"""Elements gathered and written where a tensor of indices says."""
