"""What networks ask for as one function, and libraries that do it."""
