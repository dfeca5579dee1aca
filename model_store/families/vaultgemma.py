"""VaultGemma is Gemma 2 without norms after the branches."""

from model_store.families import gemma2
from model_store.families.gemma2 import MODEL, PREFIX, TIED, UNUSED, decoder

LAYER = {name: source for name, source in gemma2.LAYER.items() if not name.startswith("post_")}
