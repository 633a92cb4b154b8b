"""``tensor[...]``, and elements at positions."""
