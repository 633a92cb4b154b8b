"""Fewer elements made of many, along dimensions or of all; scans and what is normalised."""
