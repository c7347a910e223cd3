"""How many tokens some texts have: a JSON list on standard input, a list of numbers out."""

import json
import sys

import bpe_openai

encoding = bpe_openai.get_encoding("o200k_base")
texts = json.load(sys.stdin)
json.dump([len(encoding.encode_ordinary(text)) for text in texts], sys.stdout)
