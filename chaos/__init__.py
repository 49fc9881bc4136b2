"""Plays chapters under faults, which a seed repeats. Processes and servers break while chapters are
played."""
