"""Runs the threads of a launch: waves of CTAs, groups of threads, barriers, deadlocks."""
