"""Replays histories on allocators, and draws conclusions: which allocator to use, how much memory it needs."""
