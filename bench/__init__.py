"""Measures the running program. README.md says which question each measurement answers."""
