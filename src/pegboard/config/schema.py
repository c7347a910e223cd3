"""Write the schema that is shipped: `python -m pegboard.config.schema`."""

import json
from pathlib import Path

from pegboard.config.file_schema import config_schema

__all__ = ["SHIPPED", "schema_text"]

SHIPPED = Path(__file__).with_name("mcp.schema.json")


def schema_text() -> str:
    """Return the schema as the shipped file has it."""
    return json.dumps(config_schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    SHIPPED.write_text(schema_text(), "utf-8")
