"""The search behind `weft tune`: which schedules are tried, and what is kept of a search that was stopped."""
