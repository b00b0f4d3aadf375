"""The cache on disk, and what identifies the code that fills it."""
