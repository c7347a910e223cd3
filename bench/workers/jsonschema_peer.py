"""python-jsonschema, with the validator built once."""

import time

from jsonschema import Draft202012Validator
from shared import realistic_arguments, realistic_schema, report

if __name__ == "__main__":
    validator = Draft202012Validator(realistic_schema())
    arguments = realistic_arguments()
    validator.validate(arguments)
    count = 200
    start = time.perf_counter()
    for _ in range(count):
        validator.validate(arguments)
    report(check=(time.perf_counter() - start) / count)
