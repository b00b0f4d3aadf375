"""The pipelines that `--pipeline-loops` makes of loops, a file for each kind of products."""
