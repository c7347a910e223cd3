"""QueryModel: how a query is read, learned from queries and the tools that answer them."""

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from pegboard.search.text.tool_runs import part_of
from training.bag import WordBags
from training.tool_sets import ToolSet
from training.vectors import Adam, lengths, through_unit, unit

FIRST_FIELDS = {
    "name": 1.0, "description": 1.0, "first": 0.6, "server": 0.2, "parameters": 0.3, "details": 0.3,
}  # fmt: skip
"""How much each part of a tool counts before anything is learned."""

_STEPS = 800
_AT_ONCE = 512
_SHARPNESS = 20.0
_GAIN_RANGE = (-3.0, 2.0)
# How fast each part learns, and how strongly it is drawn back to where it began.
_GAIN_RATE, _GAIN_PULL = 0.02, 1e-3
_TURN_RATE, _TURN_PULL = 2e-3, 5e-2
_FIELD_RATE, _FIELD_PULL = 0.01, 0.05


class QueryModel(NamedTuple):
    """What to do with the words of a query, and with the fields of a tool."""

    gain: np.ndarray
    """What the weight of each word is multiplied by when a query has it."""
    turn: np.ndarray
    """What the vector of a query is multiplied by."""
    fields: dict[str, float]
    """How much each part of a tool counts."""


class Examples(NamedTuple):
    """Queries with their answers, ready to learn from."""

    queries: csr_array
    relevant: list[list[int]]
    fields: np.ndarray
    """Unit rows by field and tool."""


def read_examples(tool_set: ToolSet, bags: WordBags, rows: np.ndarray) -> Examples:
    """Return the queries of a set, and its tools by what the rows of words say."""
    fields = [
        unit(bags.of(part_of(text, field) for text in tool_set.texts) @ rows)
        for field in FIRST_FIELDS
    ]
    return Examples(bags.of(tool_set.queries), tool_set.relevant, np.stack(fields))


def learn_queries(rows: np.ndarray, examples: list[Examples]) -> QueryModel:
    """Return the model that puts the right tools first, as far as so few numbers can."""
    lesson = _Lesson(rows)
    chance = np.random.default_rng(1)
    for step in range(_STEPS):
        one = examples[step % len(examples)]
        count = len(one.relevant)
        some = chance.choice(count, min(_AT_ONCE, count), replace=False)
        lesson.learn(one, some, share=1 - step / _STEPS)
    return lesson.model()


class _Lesson:
    """Gradients by hand: the model is small, and a framework is not."""

    def __init__(self, rows: np.ndarray) -> None:
        self._rows = rows
        long = np.linalg.norm(rows, axis=1, keepdims=True) - 1
        # What a gain may depend on: what the word means, and how much it counts in texts.
        self._traits = np.concatenate([unit(rows), long], axis=1).astype(np.float32)
        width = rows.shape[1]
        self._first_fields = np.log(np.array(list(FIRST_FIELDS.values()), np.float32))
        self._gain = Adam(np.zeros(width + 1, np.float32), _GAIN_RATE)
        self._turn = Adam(np.zeros((width, width), np.float32), _TURN_RATE)
        self._fields = Adam(self._first_fields.copy(), _FIELD_RATE)

    def model(self) -> QueryModel:
        gain = np.exp(np.clip(self._traits @ self._gain.values, *_GAIN_RANGE))
        turn = np.eye(len(self._turn.values), dtype=np.float32) + self._turn.values
        weights = np.exp(self._fields.values).tolist()
        return QueryModel(gain, turn, dict(zip(FIRST_FIELDS, weights, strict=True)))

    def learn(self, examples: Examples, some: np.ndarray, *, share: float) -> None:
        weights = np.exp(self._fields.values)
        sums = np.tensordot(weights, examples.fields, 1)
        tool_lengths = lengths(sums)
        tools = sums / tool_lengths

        bags = examples.queries[some]
        words = np.unique(bags.indices)
        bags = bags[:, words]
        traits = self._traits[words]
        gained = self._rows[words] * np.exp(
            np.clip(traits @ self._gain.values, *_GAIN_RANGE)
        ).reshape(-1, 1)
        plain = bags @ gained
        turned = plain + plain @ self._turn.values
        query_lengths = lengths(turned)
        queries = turned / query_lengths

        excess = self._excess(queries @ tools.T, [examples.relevant[it] for it in some])
        at_turned = through_unit(excess @ tools, queries, query_lengths)
        at_plain = at_turned + at_turned @ self._turn.values.T
        at_tools = through_unit(excess.T @ queries, tools, tool_lengths)

        gain = traits.T @ ((bags.T @ at_plain) * gained).sum(1)
        fields = np.tensordot(examples.fields, at_tools, 2) * weights
        self._gain.step(gain + _GAIN_PULL * self._gain.values, share)
        self._turn.step(plain.T @ at_turned + _TURN_PULL * self._turn.values, share)
        pull = _FIELD_PULL * (self._fields.values - self._first_fields)
        self._fields.step(fields + pull, share)

    def _excess(self, scores: np.ndarray, relevant: list[list[int]]) -> np.ndarray:
        """Return by how much each tool is too likely an answer to each query."""
        scores = scores * _SHARPNESS
        likely = np.exp(scores - scores.max(1, keepdims=True))
        likely /= likely.sum(1, keepdims=True)
        for row, right in enumerate(relevant):
            likely[row, right] -= 1 / len(right)
        return likely * (_SHARPNESS / len(relevant))
