"""Keys: in their order, by their user's choice, like Vim's, and what is typed before the screen is there."""
