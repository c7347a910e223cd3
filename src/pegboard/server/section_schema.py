"""Write the schema of the section ``gateway``: `python -m pegboard.server.section_schema`.

The room `config` ships it with that of the servers; it must not know who reads the section.
"""

import ast
import inspect
import json
from typing import Any

import msgspec

from pegboard.auth.settings import AuthSettings, TokenIssuer
from pegboard.config.files.file_schema import GATEWAY, SHIPPED, schema_text
from pegboard.gateway import GatewayOptions
from pegboard.gateway.options import Profile
from pegboard.server.settings import GatewaySettings

__all__ = ["section_schema", "section_text"]

_KINDS = (GatewayOptions, Profile, AuthSettings, TokenIssuer)


def section_schema() -> dict[str, Any]:
    """Return the definitions of everything in the section; ``Gateway`` is the section itself."""
    _, definitions = msgspec.json.schema_components([*_KINDS, GatewaySettings])
    for kind in _KINDS:
        for field, words in _explanations(kind).items():
            definitions[kind.__name__]["properties"][field]["description"] = words
    section = definitions.pop("GatewayOptions")
    tenants = definitions.pop("GatewaySettings")["properties"]["tenants"]
    tenants["description"] = _explanations(GatewaySettings)["tenants"]
    section["properties"] |= {
        "auth": {"description": "Who is let in.", "$ref": "#/$defs/AuthSettings"},
        "tenants": tenants,
    }
    section["description"] = "What `pegboard serve` is told besides the servers."
    section["additionalProperties"] = False
    return {"Gateway": section, **definitions}


def section_text() -> str:
    """Return it as the shipped file has it."""
    return json.dumps(section_schema(), indent=2, ensure_ascii=False) + "\n"


def _explanations(kind: type) -> dict[str, str]:
    """Return what stands below each field of a class."""
    (definition,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(definition, ast.ClassDef)
    found: dict[str, str] = {}
    for field, words in zip(definition.body, definition.body[1:], strict=False):
        match field, words:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(ast.Constant(value=str(text))):
                found[name] = " ".join(text.replace("``", "`").split())
            case _:
                pass
    return found


if __name__ == "__main__":
    GATEWAY.write_text(section_text(), "utf-8")
    SHIPPED.write_text(schema_text(), "utf-8")
