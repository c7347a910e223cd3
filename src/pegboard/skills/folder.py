"""SkillFolder: the skills in a folder of this machine, their files, and what is wrong with them."""

import base64
import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from urllib.parse import quote

import msgspec

from pegboard.skills.entry import (
    MAIN,
    MOST_BYTES,
    MOST_FILES,
    InvalidSkill,
    Skill,
    described,
    read_entry,
)
from pegboard.skills.frontmatter import read_front_matter
from pegboard.skills.integrity import digest_of

__all__ = ["FolderProblem", "SkillFolder", "content_item", "media_type"]

MOST_SKILLS = 5_000
MOST_SEEN = 100_000
"""How many files and folders one look goes through."""
DEEPEST = 12
LARGEST_MAIN = 1024 * 1024
LOOK_AGAIN = 1.0
"""Seconds in which a folder is not looked through again."""
_SHARE = 30.0
"""How many times as long as a look the pause after it is, at least."""
_LEFT_OUT = frozenset({"__pycache__", "node_modules"})
# Not `mimetypes`, which reads the files of each machine, and so differs between them.
_MEDIA_TYPES = {
    "md": "text/markdown",
    "markdown": "text/markdown",
    "html": "text/html",
    "css": "text/css",
    "csv": "text/csv",
    "py": "text/x-python",
    "sh": "text/x-sh",
    "js": "text/javascript",
    "json": "application/json",
    "yaml": "application/yaml",
    "yml": "application/yaml",
    "toml": "application/toml",
    "xml": "application/xml",
    "pdf": "application/pdf",
    "zip": "application/zip",
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "svg": "image/svg+xml",
    "webp": "image/webp",
}
"""Of files that skills have, by the ends of their names."""

_Sign = tuple[int, int, int]
"""The size, the time of the last change and the inode of a file."""


class FolderProblem(msgspec.Struct, frozen=True):
    """Why a folder or a file is no skill or no part of one, and what to do."""

    place: str
    """Relative to the folder of skills."""
    reason: str

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}."


class _Known(msgspec.Struct, frozen=True):
    signs: dict[str, _Sign]
    skill: Skill | None
    problem: FolderProblem | None
    paths: dict[str, str]
    """The path of each file, by its URI."""


class SkillFolder:
    """Every folder below with a ``SKILL.md`` is a skill; changes are noticed at the next look.

    Symbolic links below are not followed, and files whose names begin with a dot are left out.

    Args:
        path: the folder.
    """

    def __init__(self, path: Path) -> None:
        self.path: Path = path
        self.problems: tuple[FolderProblem, ...] = ()
        """What the last look found wrong."""
        self._known: dict[str, _Known] = {}
        self._skills: dict[str, Skill] = {}
        self._look_at = 0.0
        self._lock = threading.Lock()

    def skills(self) -> dict[str, Skill]:
        """Return the skills by URI, sorted; this reads the disk, so call it in a thread."""
        with self._lock:
            began = monotonic()
            if began >= self._look_at:
                self._look()
                taken = monotonic() - began
                # A folder of thousands of skills must not keep a core busy.
                self._look_at = monotonic() + max(LOOK_AGAIN, _SHARE * taken)
            return self._skills

    def read(self, uri: str) -> tuple[Skill, bytes] | None:
        """Return a file of a skill, and the skill; ``None`` if no skill has it.

        The bytes are those that the entry of the skill describes: if the file has changed, the
        skill is read again.
        """
        for _ in range(2):
            skills = self.skills()
            has_changed = False
            for place, known in list(self._known.items()):
                relative = known.paths.get(uri)
                skill = known.skill
                if skill is None or relative is None or skills.get(skill.uri) is not skill:
                    continue
                content = _content(self.path.resolve(), f"{place}/{relative}", MOST_BYTES)
                assert skill.files is not None
                if content is not None and digest_of(content) == skill.files[uri].digest:
                    return skill, content
                has_changed = True
            if not has_changed:
                # Any client may ask for what is not there, and a look takes long.
                return None
            with self._lock:
                self._look_at = 0.0
        return None

    def _look(self) -> None:
        problems: list[FolderProblem] = []
        known: dict[str, _Known] = {}
        root = self.path.resolve()
        if not root.is_dir():
            problems.append(FolderProblem(".", f"there is no folder {str(self.path)!r}; make it"))
        else:
            for place, signs in _skill_places(root, problems):
                if len(known) == MOST_SKILLS:
                    words = f"only the first {MOST_SKILLS} skills are served; use several folders"
                    problems.append(FolderProblem(".", words))
                    break
                before = self._known.get(place)
                is_same = before is not None and before.signs == signs
                known[place] = before if before and is_same else _read(root, place, signs)
        problems += [it.problem for it in known.values() if it.problem is not None]
        self._known, self.problems = known, tuple(dict.fromkeys(problems))
        found = {it.skill.uri: it.skill for it in known.values() if it.skill is not None}
        self._skills = dict(sorted(found.items()))


def media_type(uri: str) -> str:
    """Return the media type of a file, by its name."""
    ending = uri.rpartition("/")[2].rpartition(".")[2].lower()
    return _MEDIA_TYPES.get(ending, "text/plain")


def content_item(uri: str, content: bytes) -> dict[str, str]:
    """Return a file as an item of the ``contents`` of `resources/read`."""
    kind = media_type(uri)
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        if kind == "text/plain":
            kind = "application/octet-stream"
        return {"uri": uri, "mimeType": kind, "blob": base64.b64encode(content).decode("ascii")}
    return {"uri": uri, "mimeType": kind, "text": text}


def _skill_places(
    root: Path, problems: list[FolderProblem]
) -> Iterator[tuple[str, dict[str, _Sign]]]:
    """Yield each folder with a ``SKILL.md``, and the files in it."""
    seen = 0
    waiting = [("", 0)]
    while waiting:
        place, depth = waiting.pop()
        entries = _entries(root, place, problems)
        seen += len(entries)
        if seen > MOST_SEEN:
            words = f"it has more than {MOST_SEEN} files; only the first of them were looked at"
            problems.append(FolderProblem(".", words))
            return
        if place and any(it.name == MAIN for it in entries):
            signs = _signs(root, place, entries, problems)
            seen += len(signs)
            if signs:
                yield place, signs
            continue
        folders = sorted((it.name for it in entries if _is_folder(it)), reverse=True)
        if depth == DEEPEST:
            continue
        waiting += [(f"{place}/{it}" if place else it, depth + 1) for it in folders]


def _entries(root: Path, place: str, problems: list[FolderProblem]) -> list[os.DirEntry[str]]:
    """Return what is in a folder, without symbolic links, sorted by name."""
    found: list[os.DirEntry[str]] = []
    try:
        with os.scandir(root / place) as entries:
            for it in entries:
                if it.name.startswith(".") or it.name in _LEFT_OUT:
                    continue
                if it.is_symlink():
                    words = "it is a symbolic link, which may lead out of the folder; copy it here"
                    where = f"{place}/{_shown(it.name)}" if place else _shown(it.name)
                    problems.append(FolderProblem(where, words))
                    continue
                if not _is_text(it.name):
                    where = f"{place}/{_shown(it.name)}" if place else _shown(it.name)
                    problems.append(FolderProblem(where, "its name is not UTF-8; rename it"))
                    continue
                found.append(it)
                if len(found) > MOST_SEEN:
                    break
    except OSError as error:
        words = f"it cannot be read ({error.strerror or error}); check its permissions"
        problems.append(FolderProblem(place or ".", words))
    return sorted(found, key=lambda it: it.name)


def _is_text(name: str) -> bool:
    return name.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in name)


def _shown(name: str) -> str:
    return name.encode("utf-8", "backslashreplace").decode()


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _signs(
    root: Path, place: str, entries: list[os.DirEntry[str]], problems: list[FolderProblem]
) -> dict[str, _Sign]:
    """Return the files of a skill, by their paths in it; one more than the most is enough."""
    signs: dict[str, _Sign] = {}
    waiting = [("", 0)]
    while waiting and len(signs) <= MOST_FILES:
        inside, depth = waiting.pop()
        found_here = _entries(root, f"{place}/{inside}", problems) if inside else entries
        for it in found_here:
            path = f"{inside}/{it.name}" if inside else it.name
            try:
                found = it.stat(follow_symlinks=False)
            except OSError:
                continue
            if stat.S_ISDIR(found.st_mode) and depth < DEEPEST:
                waiting.append((path, depth + 1))
            elif stat.S_ISREG(found.st_mode):
                signs[path] = (found.st_size, found.st_mtime_ns, found.st_ino)
    return signs


def _read(root: Path, place: str, signs: dict[str, _Sign]) -> _Known:
    try:
        skill, paths = _skill(root, place, signs)
    except InvalidSkill as error:
        return _Known(signs, None, FolderProblem(place, str(error)), {})
    return _Known(signs, skill, None, paths)


def _skill(root: Path, place: str, signs: dict[str, _Sign]) -> tuple[Skill, dict[str, str]]:
    if len(signs) > MOST_FILES:
        raise InvalidSkill(f"it has more than {MOST_FILES} files; move those that it does not need")
    if sum(size for size, _, _ in signs.values()) > MOST_BYTES:
        raise InvalidSkill(f"its files have more than {MOST_BYTES} bytes together; make it smaller")
    main = _content(root, f"{place}/{MAIN}", LARGEST_MAIN)
    if main is None:
        raise InvalidSkill(f"its {MAIN} cannot be read, or has more than {LARGEST_MAIN} bytes")
    front = read_front_matter(main)
    name, _ = described(front)
    if place.rpartition("/")[2] != name:
        raise InvalidSkill(
            f"its `name` is {name!r}; rename the folder to {name!r}, or write the name of the "
            "folder into its front matter"
        )
    base = f"skill://{quote(place)}"
    paths: dict[str, str] = {}
    resources: list[dict[str, object]] = []
    for path in sorted(signs, key=lambda it: (it != MAIN, it)):
        content = main if path == MAIN else _content(root, f"{place}/{path}", MOST_BYTES)
        if content is None:
            raise InvalidSkill(f"its file {path[:200]!r} cannot be read; check its permissions")
        uri = f"{base}/{quote(path)}"
        paths[uri] = path
        resources.append({"uri": uri, "digest": digest_of(content), "size": len(content)})
    entry = {"uri": f"{base}/{MAIN}", "frontmatter": front, "resources": resources}
    return read_entry(entry, None), paths


def _content(root: Path, path: str, most: int) -> bytes | None:
    """Return a regular file below a folder; nothing that a symbolic link leads to."""
    place = root / path
    try:
        if not place.resolve().is_relative_to(root):
            return None
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        with os.fdopen(os.open(place, flags), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return None
            content = file.read(most + 1)
    except OSError:
        return None
    return content if len(content) <= most else None
