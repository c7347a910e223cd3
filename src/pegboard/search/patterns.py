"""Regular expressions that cannot explode, and how to tell them from plain text."""

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol, cast

import re2  # pyright: ignore[reportMissingTypeStubs]

from pegboard.errors import InvalidPatternError
from pegboard.search.blocks import Lines

__all__ = ["Occurrence", "Pattern", "compile_literal", "compile_pattern", "is_meant", "words_of"]

_LONGEST = 1000
# What nobody writes who does not mean a pattern.
_SIGNS = re.compile(
    r"\\[A-Za-z0-9.]|\.[*+]|\(\?|\[\^|\[[^\]\s]-|[)\]][*+?{]|\{\d|^\s*\^|\S\$\s*$|\S\|\S"
)
_WORD = re.compile(r"[\u3400-\u9fff\uf900-\ufaff]+|[^\W_\u3400-\u9fff\uf900-\ufaff]{2,}")
_MOST_WORDS = 8
# What people say around the words that matter.
_SAID = (
    "an and any are as at be by can do does find for from get give have help how in is it like me "
    "my need of on or our please show so some tell that the this to us use want we what when where "
    "which who with would you your"
)
_IDLE = frozenset(_SAID.split())
# In multi-line mode these would be the ends of all texts together.
_ENDS = {"A": "^", "Z": "$", "z": "$"}
_LOOK_AROUND = ("(?=", "(?!", "(?<=", "(?<!")
_LINEAR = "is not supported, because it cannot be searched for in linear time"


_re2: Any = re2  # which has no types


class Occurrence(NamedTuple):
    """Where a pattern was found first in a line."""

    owner: int
    text: str
    share: float
    """How much of the line it is, 0 to 1."""


class Pattern:
    """A compiled expression that is looked for in many lines at once."""

    def __init__(self, source: str) -> None:
        self._compiled = _compiler(f"(?m){source}".encode(), _options())

    def occurrences(self, lines: Lines) -> Iterator[Occurrence]:
        """Return the first occurrence in each line that has one."""
        text, starts, owners = lines
        line = 0
        while line < len(owners):
            found = self._compiled.search(text, starts[line])
            if found is None:
                return
            start, end = found.span()
            while starts[line + 1] <= start:
                line += 1
            length = starts[line + 1] - 1 - starts[line]
            word = text[start:end].decode("utf-8", "replace")
            yield Occurrence(owners[line], word, (end - start) / length if length else 0.0)
            line += 1

    def first(self, text: str) -> str | None:
        """Return what of a single text matches, if anything does."""
        found = self._compiled.search(text.replace("\n", " ").encode("utf-8", "replace"))
        return None if found is None else found.group().decode("utf-8", "replace")


def compile_pattern(text: str) -> Pattern:
    """Return the pattern that a text is.

    Raises:
        InvalidPatternError: when it is none.
    """
    if len(text) > _LONGEST:
        problem = f"it has {len(text)} characters, and {_LONGEST} are the most there may be"
        raise InvalidPatternError(text, problem)
    source = re.sub(r"\\(.)", lambda it: _ENDS.get(it[1], it[0]), _encodable(text), flags=re.DOTALL)
    try:
        return Pattern(source)
    except _re2.error as error:
        complaint: object = error.args[0]
        words = complaint if isinstance(complaint, bytes) else str(complaint).encode()
        raise _invalid(text, words.decode("utf-8", "replace")) from None


def compile_literal(text: str) -> Pattern:
    """Return a pattern that finds the text as it is."""
    plain = " ".join(_encodable(text[:_LONGEST]).split())
    return Pattern(_re2.escape(plain))


def is_meant(text: str) -> bool:
    """Tell whether a text is certainly meant as a pattern."""
    return len(text) <= _LONGEST and _SIGNS.search(text) is not None


def words_of(text: str) -> list[str]:
    """Return the words that matter in a plain text, in small letters; of Chinese, pairs."""
    # Not those of the index, which needs NumPy and a table.
    words: dict[str, None] = {}
    for word in _WORD.findall(text[:_LONGEST].casefold()):
        pairs = [word[it : it + 2] for it in range(len(word) - 1)] if word[0] > "\u3000" else []
        words.update(dict.fromkeys(pairs or [word]))
    return [word for word in words if word not in _IDLE][:_MOST_WORDS]


def _invalid(text: str, complaint: str) -> InvalidPatternError:
    problem, _, part = complaint.partition(": ")
    position: int | None = text.find(part) if part else None
    if part in _LOOK_AROUND:
        problem = f"look-around ({part}…) {_LINEAR}"
    elif problem == "invalid escape sequence" and part[1:].isdigit():
        problem = f"a back-reference ({part}) {_LINEAR}"
    elif problem in ("missing )", "unexpected )"):
        position = _unbalanced(text)
    elif problem.startswith("trailing"):
        position = len(text) - 1
    elif part:
        problem = f"{problem} {part}"
    return InvalidPatternError(text, problem, position=None if position == -1 else position)


def _unbalanced(text: str) -> int:
    """Return where the parenthesis is that has no partner."""
    opened: list[int] = []
    for found in re.finditer(r"\\.|\[\^?\]?(?:\\.|[^\]])*\]|[()]", text, flags=re.DOTALL):
        if found[0] == "(":
            opened.append(found.start())
        elif found[0] == ")":
            if not opened:
                return found.start()
            opened.pop()
    return opened[-1] if opened else -1


def _encodable(text: str) -> str:
    """Replace halves of characters, which UTF-8 does not have."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class _Span(Protocol):
    def span(self) -> tuple[int, int]: ...

    def group(self) -> bytes: ...


class _Compiled(Protocol):
    def search(self, text: bytes, pos: int | None = None) -> _Span | None: ...


_compiler = cast("Callable[[bytes, object], _Compiled]", _re2.compile)


def _options() -> object:
    options = _re2.Options()
    options.case_sensitive = False
    options.log_errors = False
    options.never_nl = True
    return options
