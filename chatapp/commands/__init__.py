"""Commands in a conversation: the table, parsing, and what they do."""
