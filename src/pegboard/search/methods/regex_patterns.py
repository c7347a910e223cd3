"""Regular expressions by RE2, which cannot blow up, and how to tell them from plain text."""

import atexit
import os
import re
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple, ParamSpec, Protocol, TypeVar, cast

import re2  # pyright: ignore[reportMissingTypeStubs]

from pegboard.errors import InvalidPatternError
from pegboard.search.methods.regex_blocks import TextLines

__all__ = [
    "Occurrence",
    "Pattern",
    "call_native",
    "compile_literal",
    "compile_pattern",
    "is_meant",
    "under_way",
    "words_of",
]

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

_LONGEST_WAIT = 3.0
_LOOK_EVERY = 0.001

under_way: set[object] = set()
"""A mark for each call of a daemon thread that has not come back."""
_ending = threading.Event()


def call_native(
    function: Callable[Parameters, Result], *args: Parameters.args, **kwargs: Parameters.kwargs
) -> Result:
    """Call a function of C++ that lets other threads run meanwhile.

    A daemon thread that comes back from there after the interpreter has ended is thrown out of
    C++ code, which aborts the whole process. So the end waits for those that are in it, and no
    other one gets in.
    """
    if not threading.current_thread().daemon:
        return function(*args, **kwargs)
    mark = object()
    # Marked first, looked second; the end does it the other way round, and none slips through.
    under_way.add(mark)
    try:
        if not _ending.is_set():
            return function(*args, **kwargs)
    finally:
        under_way.discard(mark)
    while True:
        # The interpreter has ended, so no caller waits for the result.
        threading.Event().wait()


def _let_finish() -> None:
    _ending.set()
    give_up = time.monotonic() + _LONGEST_WAIT
    while under_way and time.monotonic() < give_up:
        time.sleep(_LOOK_EVERY)


atexit.register(_let_finish)
if hasattr(os, "register_at_fork"):
    # Those threads are not in the child.
    os.register_at_fork(after_in_child=under_way.clear)


_LONGEST = 1000
# How many steps a compiled pattern may have: larger ones take long for a single text.
_LARGEST = 5_000
# While a pattern is compiled, all other threads wait. So one that may be large is first compiled
# with this memory, which is enough for the largest that is allowed.
_TRIAL_MEMORY = 1 << 18
_MAY_BE_LARGE = re.compile(r"\{|\\[pP]")
_MOST_CLASSES = 20
"""The most classes of Unicode, such as ``\\p{L}``: to read one takes up to half a millisecond."""
# Signs that appear only in patterns,
_SIGNS = re.compile(
    r"(?<![\w:\\])\\[A-Za-z0-9.]|\\[dswDSW][*+{]|\.[*+]|\(\?|\[\^|\[[^\]\s]-|[)\]][*+{]|\{\d"
    r"|^\s*\^|\S\|\S"
)
# and signs that also appear in questions with brackets, prices and paths.
_DOUBTFUL_SIGNS = re.compile(r"\\[A-Za-z0-9.]|[)\]]\?|\S\$\s*$")
_SEVERAL_WORDS = re.compile(r"\w\S*\s+\S*\w")
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
# To find the place of an error only the beginnings of a pattern are read, and never used.
_READING_MEMORY = 1 << 14
_MOST_PLACES = 10
_REPEATS = "it repeats too much; `*` and `+` repeat at no cost"
_LINEAR = "is not supported, because it cannot be searched for in linear time"


_re2: Any = re2  # which has no types
_Where = TypeVar("_Where")
_Found = TypeVar("_Found")


class Occurrence(NamedTuple):
    """Where a pattern was found first in a line."""

    owner: int
    text: str
    share: float
    """How much of the line it is, 0 to 1."""


class Pattern:
    """A compiled expression that is looked for in many lines at once.

    Args:
        source: in the syntax of RE2.
        text: as the caller wrote it.
        seconds: how much processor time searching for it may take; by default there is no limit.
    """

    def __init__(self, source: str, *, text: str, seconds: float | None = None) -> None:
        self._compiled = call_native(_compiler, _lined(source), _options())
        self._text = text
        self._seconds = seconds
        self._spent = 0.0

    @property
    def size(self) -> int:
        """How many steps it has."""
        return max(self._compiled.programsize, self._compiled.reverseprogramsize)

    def occurrences(self, lines: TextLines) -> list[Occurrence]:
        """Return the first occurrence in each line that has one."""
        return self._timed(self._scan, lines)

    def first(self, text: str) -> str | None:
        """Return what of a single text matches, if anything does."""
        line = text.replace("\n", " ").encode("utf-8", "replace")
        found = self._timed(self._compiled.search, line)
        return None if found is None else found.group().decode("utf-8", "replace")

    def _scan(self, lines: TextLines) -> list[Occurrence]:
        text, starts, owners = lines
        search = self._compiled.search
        occurrences: list[Occurrence] = []
        line = 0
        while line < len(owners):
            found = search(text, starts[line])
            if found is None:
                break
            start, end = found.span()
            while starts[line + 1] <= start:
                line += 1
            length = starts[line + 1] - 1 - starts[line]
            word = text[start:end].decode("utf-8", "replace")
            share = (end - start) / length if length else 0.0
            occurrences.append(Occurrence(owners[line], word, share))
            line += 1
        return occurrences

    def _timed(self, search: Callable[[_Where], _Found], where: _Where) -> _Found:
        if self._seconds is None:
            return call_native(search, where)
        if self._spent > self._seconds:
            problem = f"searching for it takes more than {self._seconds:g} s; make it simpler"
            raise InvalidPatternError(self._text, problem)
        began = time.thread_time()
        found = call_native(search, where)
        self._spent += time.thread_time() - began
        return found


def compile_pattern(text: str, *, seconds: float | None = None) -> Pattern:
    """Return the pattern that a text is.

    Args:
        text: the pattern.
        seconds: how much processor time searching for it may take; by default there is no limit.

    Raises:
        InvalidPatternError: when it is not valid; and later, when a search takes longer.
    """
    if len(text) > _LONGEST:
        problem = f"it has {len(text)} characters, but at most {_LONGEST} are allowed"
        raise InvalidPatternError(text, problem)
    if text.count("\\p") + text.count("\\P") > _MOST_CLASSES:
        problem = f"it has more than {_MOST_CLASSES} classes such as `\\p{{L}}`"
        raise InvalidPatternError(text, problem)
    source = _source(text)
    try:
        if _MAY_BE_LARGE.search(source) is not None:
            call_native(_compiler, _lined(source), _options(memory=_TRIAL_MEMORY))
        pattern = Pattern(source, text=text, seconds=seconds)
    except _re2.error as error:
        raise _invalid(text, _complaint(error)) from None
    if seconds is not None and pattern.size > _LARGEST:
        raise InvalidPatternError(text, _REPEATS)
    return pattern


def compile_literal(text: str) -> Pattern:
    """Return a pattern that finds the text as it is."""
    plain = " ".join(_encodable(text[:_LONGEST]).split())
    return Pattern(_re2.escape(plain), text=text)


def is_meant(text: str) -> bool:
    """Tell whether a text is certainly meant as a pattern."""
    if len(text) > _LONGEST:
        return False
    if _SIGNS.search(text):
        return True
    return bool(_DOUBTFUL_SIGNS.search(text)) and not _SEVERAL_WORDS.search(text)


def words_of(text: str) -> list[str]:
    """Return the words that matter in a plain text, in small letters; of Chinese, pairs."""
    # Not those of the index, which needs NumPy and a table.
    words: dict[str, None] = {}
    for word in _WORD.findall(text[:_LONGEST].casefold()):
        pairs = [word[it : it + 2] for it in range(len(word) - 1)] if word[0] > "\u3000" else []
        words.update(dict.fromkeys(pairs or [word]))
    return [word for word in words if word not in _IDLE][:_MOST_WORDS]


def _source(text: str) -> str:
    """Return a pattern as it is for texts that are the lines of one."""
    return re.sub(r"\\(.)", lambda it: _ENDS.get(it[1], it[0]), _encodable(text), flags=re.DOTALL)


def _lined(source: str) -> bytes:
    return f"(?m){source}".encode()


def _complaint(error: Exception) -> str:
    words: object = error.args[0]
    return words.decode("utf-8", "replace") if isinstance(words, bytes) else str(words)


def _invalid(text: str, complaint: str) -> InvalidPatternError:
    if complaint.startswith("pattern too large"):
        return InvalidPatternError(text, _REPEATS)
    problem, _, part = complaint.partition(": ")
    position = _place(text, complaint, part) if part else None
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
    return InvalidPatternError(text, problem, position=position)


def _place(text: str, complaint: str, part: str) -> int | None:
    """Return where the part is that RE2 complains of; it may stand elsewhere, too, and be right."""
    places = [it.start() for it in re.finditer(f"(?={re.escape(part)})", text)]
    if len(places) == 1:
        return places[0]
    options = _options(memory=_READING_MEMORY)
    for place in places[:_MOST_PLACES]:
        # It is read from the left: the first beginning that has this error ends with it.
        try:
            call_native(_compiler, _lined(_source(text[: place + len(part)])), options)
        except _re2.error as error:
            if _complaint(error) == complaint:
                return place
    return None


def _unbalanced(text: str) -> int | None:
    """Return where the parenthesis is that has no partner."""
    opened: list[int] = []
    for found in re.finditer(r"\\.|\[\^?\]?(?:\\.|[^\]])*\]|[()]", text, flags=re.DOTALL):
        if found[0] == "(":
            opened.append(found.start())
        elif found[0] == ")":
            if not opened:
                return found.start()
            opened.pop()
    return opened[-1] if opened else None


def _encodable(text: str) -> str:
    """Replace halves of characters, which UTF-8 does not have."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class _Span(Protocol):
    def span(self) -> tuple[int, int]: ...

    def group(self) -> bytes: ...


class _Compiled(Protocol):
    @property
    def programsize(self) -> int: ...

    @property
    def reverseprogramsize(self) -> int: ...

    def search(self, text: bytes, pos: int | None = None) -> _Span | None: ...


_compiler = cast("Callable[[bytes, object], _Compiled]", _re2.compile)


def _options(*, memory: int | None = None) -> object:
    options = _re2.Options()
    if memory is not None:
        options.max_mem = memory
    options.case_sensitive = False
    options.log_errors = False
    options.never_nl = True
    # Groups are not used, and without them the fast engine gives the position, too.
    options.never_capture = True
    return options
