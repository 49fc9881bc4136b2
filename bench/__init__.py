"""Measurements of Story Engine, each taken as a ratio or a difference within one run."""
