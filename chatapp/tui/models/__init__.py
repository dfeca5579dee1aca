"""The models screen, and the chat screen's lines about jobs and offers."""
