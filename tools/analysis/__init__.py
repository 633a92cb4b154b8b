"""What traces mean, computed. Nothing here prints."""
