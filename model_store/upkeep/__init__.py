"""The store's disk: locks, blobs, usage, and what can be deleted."""
