"""What tests share: checkpoints, stand-ins, a hub on this machine, and ways to drive the screen."""
