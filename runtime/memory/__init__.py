"""Memory: page-locked, copied, counted, put to sleep."""
