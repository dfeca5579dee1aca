"""Models on this machine: found, pulled, lowered, kept and removed."""

from backends import Progress
from model_store.errors import ModelNotFound, StoreError, UnsupportedCheckpoint
from model_store.files import write_json
from model_store.local.other_apps import Places
from model_store.models import BUILTIN, StoredModel, Variant, is_name
from model_store.store import Store

__all__ = [
    "BUILTIN",
    "ModelNotFound",
    "Places",
    "Progress",
    "Store",
    "StoreError",
    "StoredModel",
    "UnsupportedCheckpoint",
    "Variant",
    "is_name",
    "write_json",
]
