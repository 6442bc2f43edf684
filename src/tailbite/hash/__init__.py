"""Keccak-256 and the trees made with it."""
