"""Commands in a conversation: their table, their syntax, and what they do."""
