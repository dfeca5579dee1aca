"""What is said between a user and a model: a tree of messages, saved as it grows where that is wanted."""

from chatapp.dialogue.dialogue import Dialogue
from chatapp.dialogue.engine import Engine
from chatapp.dialogue.rescue import rescue
from chatapp.dialogue.setup import Setup, WhenFull
from chatapp.dialogue.turn import Turn, is_cut_off

__all__ = ["Dialogue", "Engine", "Setup", "Turn", "WhenFull", "is_cut_off", "rescue"]
