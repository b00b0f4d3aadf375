"""All memory that a launch sees: global, shared, local and tensor memory, mbarriers, tensor maps."""
