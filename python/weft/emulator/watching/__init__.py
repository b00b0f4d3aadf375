"""Observers of a launch: the events, the trace, and who hears them."""
