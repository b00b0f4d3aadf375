"""Entries that other packages register, and flags of passes."""
