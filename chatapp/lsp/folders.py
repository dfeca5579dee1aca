"""The folders open in an editor, each with an index of its files."""

from collections.abc import Callable, Iterable
from pathlib import Path
from threading import Thread

from chatapp.completion.index import FolderIndex
from chatapp.completion.sources import find_root
from chatapp.text.errors import UserError


class Folders:
    """An index per folder, built in the background."""

    def __init__(self, log: Callable[[str], object]) -> None:
        """`log` is called, also from other threads, with what an index leaves out."""
        self._log = log
        self._indexes: dict[Path, FolderIndex | None] = {}
        """None for a folder that cannot be indexed."""

    @property
    def roots(self) -> list[Path]:
        """The folders."""
        return list(self._indexes)

    def follow(self, roots: Iterable[Path]) -> None:
        """Index these folders and drop all others."""
        wanted = list(roots)
        for root in [root for root in self._indexes if root not in wanted]:
            if index := self._indexes.pop(root):
                Thread(target=index.close, daemon=True).start()
        for root in wanted:
            if root not in self._indexes:
                self._indexes[root] = self._open(root)

    def _open(self, root: Path) -> FolderIndex | None:
        try:
            index = FolderIndex(root)
        except UserError as error:
            self._log(str(error))
            return None
        index.start()
        Thread(target=self._tell, args=(index,), daemon=True).start()
        return index

    def _tell(self, index: FolderIndex) -> None:
        index.scanned.wait()
        self._log(f"{len(index.paths):,} files of {index.root.name} read")
        if index.notice:
            self._log(index.notice)

    def around(self, path: Path | None) -> FolderIndex | None:
        """The index of the innermost folder that contains a file; for other documents, the first index."""
        if path is None:
            return next(iter(self._indexes.values()), None)
        above = [root for root in self._indexes if root in path.parents]
        return self._indexes[max(above, key=lambda root: len(root.parts))] if above else None

    def update(self, path: Path, text: str) -> None:
        """Update the index after the editor saved a file."""
        if index := self.around(path):
            index.update(path, text)


def roots_of(files: Iterable[Path | None]) -> list[Path]:
    """The project folder of the first file that is in one, for editors without an open folder."""
    return [root for path in files if path and (root := find_root(path))][:1]
