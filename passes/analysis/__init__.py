"""Analyses of IR that passes use."""
