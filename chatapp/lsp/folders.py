"""The folders that are open in an editor, each with an index of its files."""

from collections.abc import Callable, Iterable
from pathlib import Path
from threading import Thread

from chatapp.completion.index import FolderIndex
from chatapp.completion.sources import find_root
from chatapp.text.errors import UserError


class Folders:
    """An index for each folder, which is built in the background."""

    def __init__(self, log: Callable[[str], object]) -> None:
        """`log` is told, also by other threads, what an index leaves out."""
        self._log = log
        self._indexes: dict[Path, FolderIndex | None] = {}
        """None where a folder can have none."""

    @property
    def roots(self) -> list[Path]:
        """The folders."""
        return list(self._indexes)

    def follow(self, roots: Iterable[Path]) -> None:
        """Have an index of these folders, and of no others."""
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
        self._log(f"{len(index.paths):,} files of {index.root.name} are read")
        if index.notice:
            self._log(index.notice)

    def around(self, path: Path | None) -> FolderIndex | None:
        """The index of the nearest folder that a file is in; of the first one for a document that is no file."""
        if path is None:
            return next(iter(self._indexes.values()), None)
        above = [root for root in self._indexes if root in path.parents]
        return self._indexes[max(above, key=lambda root: len(root.parts))] if above else None

    def update(self, path: Path, text: str) -> None:
        """A file was written by the editor."""
        if index := self.around(path):
            index.update(path, text)


def roots_of(files: Iterable[Path | None]) -> list[Path]:
    """The project of the first file that is in one, for an editor that has no folder open."""
    return [root for path in files if path and (root := find_root(path))][:1]
