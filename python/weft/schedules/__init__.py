"""Schedules that were measured as the fastest, and how they are kept; `*.jsonl` are shipped ones."""
