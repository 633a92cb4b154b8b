"""Several tensors made one, and one made several."""
