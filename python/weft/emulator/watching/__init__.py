"""Observers of a launch: the sanitizer's and the trace's part in it."""
