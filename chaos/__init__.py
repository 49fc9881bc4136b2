"""Plays chapters under faults that a seed repeats, while everything around the chapters breaks."""
