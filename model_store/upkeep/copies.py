"""`cp`: a model under a second name, sharing its bytes where the disk has hard links."""

import shutil

from model_store.disk import link_tree, writing
from model_store.errors import StoreError
from model_store.hub import pulled
from model_store.location import Location
from model_store.locks import alone, unfinished
from model_store.models import StoredModel, check_new_name
from model_store.runtime_caches import PREFIX
from model_store.store import Store, read_model


def copy(store: Store, name: str, new: str) -> StoredModel:
    """Copy the model `name` and its variants to the name `new`; the manifest comes last."""
    check_new_name(new)
    model = store.get(name)
    if new in store.locations():
        raise StoreError(f"a model {new!r} already exists; choose another name, or run: chatapp rm {new}")
    here = store.location(model.name)
    there = Location(here.root, new)
    target = there.folder
    with writing(here.root), alone(here, f"copying it to {new}"), alone(there, f"copying {model.name}"):
        if new in store.locations():
            raise StoreError(f"a model {new!r} already exists: another process was faster")
        shutil.rmtree(target, ignore_errors=True)  # of an interrupted copy
        target.mkdir()
        lowered = here.manifest.is_file() and not model.export  # an export's stand-in contains its path
        for variant in read_model(here.folder).variants if lowered else ():
            with unfinished(target) as made:
                link_tree(variant.folder, made / "copy", but=PREFIX)
                (made / "copy").rename(target / variant.folder.name)
        if here.imported.is_dir():
            with unfinished(target) as made:
                link_tree(here.imported, made / "copy")
                (made / "copy").rename(there.imported)
            folder = there.imported
        elif model.folder == here.checkpoint:
            pulled.copy(here, there)
            folder = there.checkpoint
        else:
            folder = model.folder
    store.register(new, folder)
    return store.get(new)
