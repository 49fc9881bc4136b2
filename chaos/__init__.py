"""Plays chapters under faults, such as killed processes and servers. A seed repeats the same
faults."""
