"""Passes, pipelines and candidates, and how each is found by name."""
