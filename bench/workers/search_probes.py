"""What searches are probed with: spellings of names, a slip of the finger, and nonsense."""

import random
import re
from collections.abc import Callable, Iterator

_BORDERS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[\s_.\-/:]+")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
# Nothing that software does for anybody, and no food or music, which some tools are about.
_ODD_WORDS = """
walrus gargoyle thistle pewter meadowlark cobbler velvet lagoon trellis mongoose lantern gingham
barnacle hickory minaret ocelot quagmire tadpole umbrella vicar wombat yodel zeppelin acorn
bramble chandelier dimple eiderdown ferret gazebo hammock icicle juniper larkspur nettle pelican
quilt rapier samovar tassel urchin wigwam yak anvil buttercup dandelion ermine gosling harpoon
iguana jackdaw kettle lozenge osprey pumice raccoon scabbard unicorn vestibule whelk yarrow
abbey doublet egret fjord grotto heather ibex jester knoll moss nightingale orchard puddle
quiver ribbon sorrel tundra vole willow
"""
_WORDS = _ODD_WORDS.split()


def spellings(name: str) -> dict[str, str]:
    """The ways people write a name: the same words, put together differently."""
    words = [it for it in _BORDERS.split(name) if it]
    lower = [it.lower() for it in words]
    camel = lower[:1] + [it.capitalize() for it in lower[1:]]
    return {
        "as it is": name,
        "snake": "_".join(lower),
        "camel": "".join(camel),
        "kebab": "-".join(lower),
        "dotted": ".".join(lower),
        "spaced": " ".join(lower),
    }


def with_a_typo(name: str, chance: random.Random) -> str | None:
    """A name with one letter wrong, missing, doubled or swapped; `None` for short ones."""
    letters = [place for place, it in enumerate(name) if it.isascii() and it.isalpha()]
    if len(squashed(name)) < 5 or len(letters) < 5:
        return None
    place = chance.choice(letters[1:])
    before, letter, after = name[:place], name[place], name[place + 1 :]
    return chance.choice(
        [
            before + chance.choice([it for it in _LETTERS if it != letter.lower()]) + after,
            before + after,
            before + letter + letter + after,
            name[: place - 1] + letter + name[place - 1] + after,
        ]
    )


def squashed(name: str) -> str:
    """The letters and digits of a name: what all its spellings share."""
    return "".join(it for it in name.casefold() if it.isalnum())


def one_edit_apart(left: str, right: str) -> bool:
    """Whether at most one letter was replaced, added, left out or swapped with its neighbour."""
    if abs(len(left) - len(right)) > 1:
        return False
    start = 0
    while start < min(len(left), len(right)) and left[start] == right[start]:
        start += 1
    a, b = left[start:], right[start:]
    swapped = len(a) > 1 and len(b) > 1 and a[:2] == b[1::-1] and a[2:] == b[2:]
    return a[1:] == b[1:] or a[1:] == b or a == b[1:] or swapped


def nonsense(count: int) -> Iterator[tuple[str, str]]:
    """Questions that mean nothing, of each kind as many; the same in every run."""
    chance = random.Random(20_240)
    for kind, make in _KINDS.items():
        for _ in range(count):
            yield kind, " ".join(make(chance) for _ in range(chance.randint(2, 6)))


def _mash(chance: random.Random) -> str:
    row = chance.choice(_ROWS)
    place = chance.randrange(len(row) - 3)
    return "".join(chance.choice(row[place : place + 4]) for _ in range(chance.randint(4, 10)))


_KINDS: dict[str, Callable[[random.Random], str]] = {
    "random letters": lambda it: "".join(it.choices(_LETTERS, k=it.randint(3, 9))),
    "keyboard mash": _mash,
    "random words": lambda it: it.choice(_WORDS),
    "random Chinese": lambda it: "".join(chr(it.randint(0x4E00, 0x9FA5)) for _ in range(3)),
}
