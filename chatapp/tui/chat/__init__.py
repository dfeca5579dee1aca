"""The chat screen: conversations, messages, and the figures of a reply."""
