"""Measurements of Story Engine. Each is a ratio or a difference of values from the same run."""
