"""What ``python tools/bench.py`` measures, and how."""
