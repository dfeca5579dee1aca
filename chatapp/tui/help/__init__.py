"""Help on the screen: the keys, the palette of commands, and the themes."""
