"""Jobs in the background: pulls, verifications and timings."""
