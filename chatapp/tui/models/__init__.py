"""The models screen, and the lines that the chat shows of pulls and offers."""
