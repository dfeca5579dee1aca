"""Drills that drive real editors with chatapp as their language server; README.md tells what they need."""
