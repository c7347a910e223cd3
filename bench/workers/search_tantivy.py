"""tantivy: Rust's full-text engine, in memory, English stems, the name counting three times."""

import re

import tantivy
from search_shared import DEPTH, Definition, Search, parameters, run, words

BOOSTS = {"name": 3.0, "description": 1.0, "parameters": 0.6}


def build(tools: list[Definition]) -> Search:
    builder = tantivy.SchemaBuilder()
    builder.add_unsigned_field("place", stored=True)
    for field in BOOSTS:
        builder.add_text_field(field, tokenizer_name="en_stem")
    index = tantivy.Index(builder.build())
    writer = index.writer(num_threads=1)
    for place, tool in enumerate(tools):
        writer.add_document(
            tantivy.Document(
                place=place,
                name=words(tool["name"]),
                description=tool["description"],
                parameters=" ".join([words(parameters(tool)[0]), parameters(tool)[1]]),
            )
        )
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    searcher = index.searcher()

    def search(text: str) -> list[int]:
        # Its query language gives meaning to most punctuation.
        plain = " ".join(re.findall(r"\w+", text.lower()))
        query, _ = index.parse_query_lenient(plain, list(BOOSTS), field_boosts=BOOSTS)
        hits = searcher.search(query, DEPTH).hits
        return [searcher.doc(address)["place"][0] for _, address in hits]

    return search


run({"tantivy": build})
