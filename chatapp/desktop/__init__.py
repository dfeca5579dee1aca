"""The desktop application: the same screens in a window, over a connection that only this window can use."""
