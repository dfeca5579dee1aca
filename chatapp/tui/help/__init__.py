"""Help on the screen: keys, the command palette, and the theme picker."""
