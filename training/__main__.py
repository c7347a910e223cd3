"""Make the table of words, or such tables as have not seen the queries of one set."""

import argparse
import logging
from pathlib import Path

import numpy as np

from pegboard.search.word_table import SHIPPED_TABLE
from training.bag import WordBags
from training.corpus import read_corpus
from training.distil import distil
from training.lessons import ask_teachers
from training.places import LEFT_OUT_TABLES
from training.query_model import Examples, QueryModel, learn_queries, read_examples
from training.table import SmallRows
from training.tool_sets import WITH_QUERIES
from training.vectors import unit
from training.vocabulary import choose_words

_SUMMARIES = 12_000

_log = logging.getLogger("training")


def main() -> None:
    """Run the recipe from the sources to the file."""
    options = _options()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    _log.info("reading the sources")
    corpus = read_corpus()
    vocabulary = choose_words(corpus)
    _log.info("%s words; asking the teachers", len(vocabulary.words))
    lessons = ask_teachers(corpus, vocabulary)
    _log.info("counting the words of %s texts", len(lessons.texts))
    bags = WordBags(vocabulary.words)
    rows = distil(lessons, bags.of(lessons.texts), vocabulary)
    small = SmallRows(vocabulary, rows, alone=lessons.words)
    examples = {it.name: read_examples(it, bags, small.values) for it in corpus.sets}
    chance = np.random.default_rng(3)
    texts = chance.choice(corpus.debian.summaries, _SUMMARIES, replace=False)
    software = unit(bags.of(map(str, texts)) @ small.values)

    def write(path: Path, left_out: str = "") -> None:
        _log.info("learning from queries, for %s", path)
        learnt = [it for it in WITH_QUERIES if it != left_out]
        model = learn_queries(small.values, [examples[it] for it in learnt])
        tools = [_tool_vectors(it, model) for it in examples.values()]
        vectors = np.concatenate([*tools, software])
        vectors = vectors[np.linalg.norm(vectors, axis=1) > 0]
        small.write(path, model, vectors=vectors, notice=corpus.wordnet.notice)

    write(options.output)
    if options.leave_out:
        for name in WITH_QUERIES:
            write(LEFT_OUT_TABLES / f"without-{name}.table", left_out=name)


def _tool_vectors(examples: Examples, model: QueryModel) -> np.ndarray:
    return unit(np.tensordot(np.array(list(model.fields.values())), examples.fields, 1))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make words-table", description=__doc__)
    parser.add_argument(
        "--output", type=Path, default=SHIPPED_TABLE, metavar="FILE", help="where to (%(default)s)"
    )
    parser.add_argument(
        "--leave-out",
        action="store_true",
        help=f"also write, for each set with queries, a table without them to {LEFT_OUT_TABLES}",
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
