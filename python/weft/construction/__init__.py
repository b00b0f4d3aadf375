"""Builds modules from Python."""
