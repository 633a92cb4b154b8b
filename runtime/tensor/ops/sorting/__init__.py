"""Order, ranks, and what occurs how often."""
