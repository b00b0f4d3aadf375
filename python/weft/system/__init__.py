"""Processes, threads and files, with an alternative where a system lacks them."""
