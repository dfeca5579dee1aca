"""`cp`: a model under a second name; no byte of it is there twice where the disk knows links."""

import shutil

from model_store import Store, StoredModel, StoreError
from model_store.hub import pulled
from model_store.local import imported
from model_store.models import check_new_name
from model_store.upkeep.disk import link_tree, not_writable, own
from model_store.upkeep.locks import alone
from model_store.upkeep.runtime_caches import PREFIX
from model_store.upkeep.unfinished import unfinished


def copy(store: Store, name: str, new: str) -> StoredModel:
    """The model `name`, with what it was lowered to, under the name `new` as well; that comes last."""
    check_new_name(new)
    model = store.get(name)
    if new in store.names():
        raise StoreError(f"there is a model called {new!r} already; choose another name, or: chatapp rm {new}")
    root = store.root_of(model.name)
    source, target = own(root, model.name), own(root, new)
    try:
        with alone(root, model.name, f"copying it to {new}"), alone(root, new, f"copying {model.name}"):
            if new in store.names():
                raise StoreError(f"there is a model called {new!r} already: another process was quicker")
            shutil.rmtree(target, ignore_errors=True)  # of a copy that was stopped
            target.mkdir()
            lowered = source.is_dir() and not model.export  # what stands for an export names its place
            for variant in store.read(model.name).variants if lowered else ():
                with unfinished(target) as made:
                    link_tree(variant.folder, made / "copy", but=PREFIX)
                    (made / "copy").rename(target / variant.folder.name)
            if (source / imported.FOLDER).is_dir():
                with unfinished(target) as made:
                    link_tree(source / imported.FOLDER, made / "copy")
                    (made / "copy").rename(target / imported.FOLDER)
                folder = target / imported.FOLDER
            elif model.folder == pulled.checkpoint(root, model.name):
                pulled.copy(root, model.name, new)
                folder = pulled.checkpoint(root, new)
            else:
                folder = model.folder
    except OSError as error:
        raise not_writable(root, error) from error
    store.register(new, folder)
    return store.get(new)
