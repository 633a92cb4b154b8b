"""Copies between types and places."""
