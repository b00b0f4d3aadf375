"""Matrix products timed beside those of other libraries: suites, method, implementations, report."""
