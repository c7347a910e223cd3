"""A fold: the files of a JSON store written anew, while others go on with the journal."""

from pegboard.storage.json_file.atomic_write import NewFile, free_name, replace_file, sync_folder
from pegboard.storage.json_file.changes import Position, Signatures
from pegboard.storage.json_file.content import JsonContent
from pegboard.storage.json_file.paths import JsonPaths
from pegboard.storage.json_file.pieces import VERSION, state_text, tools_pieces

__all__ = ["Fold"]


class Fold:
    """One attempt, with what was there when it began.

    It is begun and put in place by whoever has the lock of the journal, and written without.
    """

    def __init__(self, paths: JsonPaths, content: JsonContent, began: Position) -> None:
        self.began = began
        self.tools: NewFile | None = None
        self._paths = paths
        self._version = content.tools_version
        self._content = content.snapshot()
        self._state: NewFile | None = None
        self._no_state = False
        try:
            if content.tools_changed:
                self.tools = NewFile(paths.tools)
            if content.state_changed:
                self._state = NewFile(paths.state)
        except BaseException:
            self.discard()
            raise

    def write(self) -> None:
        """Write what the files will be, and wait until it is on the disk.

        Raises:
            OSError: when that is not possible.
        """
        if self.tools is not None:
            self.tools.write(tools_pieces(self._content))
        if self._state is not None:
            text = state_text(self._content)
            self._no_state = text is None
            self._state.write([text or b""])

    def put_in_place(self, files: Signatures) -> None:
        """Replace the files, and wait until that is on the disk.

        Raises:
            OSError: when that is not possible; some may be replaced then, and others not.
        """
        if self.tools is not None:
            if self._version < VERSION and files[0] is not None:
                self._keep_old()
            self.tools.put_in_place()
        if self._no_state:
            self._paths.state.unlink(missing_ok=True)
        elif self._state is not None:
            self._state.put_in_place()
        if self.tools is not None or self._state is not None:
            sync_folder(self._paths.folder)

    def signatures(self, files: Signatures) -> Signatures:
        """Return what the files are after it, given what they were before."""
        tools = files[0] if self.tools is None else self.tools.signature
        if self._no_state:
            return tools, None
        return tools, files[1] if self._state is None else self._state.signature

    def discard(self) -> None:
        """Remove what has not been put in place."""
        for new in (self.tools, self._state):
            if new is not None:
                new.discard()

    def _keep_old(self) -> None:
        old = self._paths.tools.read_bytes()
        base = self._paths.tools.with_name(f"{self._paths.tools.name}.v{self._version}")
        if not base.exists() or base.read_bytes() != old:
            replace_file(free_name(base), [old])
