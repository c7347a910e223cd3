"""The requirements of the design documents by id; every one needs a test that names it."""

SAGE = {
    "R-SAGE-1": "an empty registry without arguments",
    "R-SAGE-2": "any object with name and call",
    "R-SAGE-3": "no name: TypeError",
    "R-SAGE-4": "no call: TypeError",
    "R-SAGE-5": "description and schema are optional",
    "R-SAGE-6": "the shape of describe",
    "R-SAGE-7": "description and schema shown unchanged",
    "R-SAGE-8": "describe can be JSON",
    "R-SAGE-9": "the tool's value comes back unchanged",
    "R-SAGE-10": "unknown name: KeyError",
    "R-SAGE-11": "the tool's exception comes back unchanged",
    "R-SAGE-12": "the name is the key, the schema a JSON Schema",
    "R-SAGE-13": "the calculator example",
    "R-SAGE-14": "the echo example",
    "R-SAGE-15": "it does not matter how a tool works inside",
    "R-SAGE-16": "no transport, no MCP SDK",
    "R-SAGE-17": "no permissions unless asked for",
    "R-SAGE-18": "three signatures that last",
    "R-SAGE-19": "a remote tool behind the same four members",
    "R-SAGE-27": "the format of a plan step",
    "R-SAGE-28": "a step without arguments",
    "R-SAGE-29": "replies never reach the registry",
    "R-SAGE-30": "the recommended shape of a return value",
    "R-SAGE-31": "no eval",
    "R-SAGE-32": "the document's own four tests",
    "R-SAGE-33": "validation before the tool runs",
    "R-SAGE-34": "defaults are merged",
    "R-SAGE-35": "allow and deny lists",
    "R-SAGE-36": "a time limit",
    "R-SAGE-37": "retries",
    "R-SAGE-38": "telemetry",
    "R-SAGE-39": "an asynchronous interface",
    "R-SAGE-40": "bounded concurrency with a queue",
    "X-SAGE-1": "a second tool of the same name replaces the first",
    "X-SAGE-2": "describe fills in what is missing",
    "X-SAGE-3": "execute",
    "X-SAGE-9": "bad names and calls are refused",
}

LANDS_WITH_THE_CONNECTIONS = {
    "R-SAGE-20": "RemoteMCPAdapter can be made and registered",
    "R-SAGE-21": "it speaks JSON-RPC 2.0",
    "R-SAGE-22": "a JSON-RPC error becomes RuntimeError",
    "R-SAGE-23": "a response without result is {}",
    "R-SAGE-24": "a long-lived connection",
    "R-SAGE-25": "any command that starts a server",
    "R-SAGE-26": "stdio and WebSocket",
}
"""`RemoteMCPAdapter` needs the connections to MCP servers, and lands together with them."""

LEFT_OUT = {
    "X-SAGE-4": "an HTTP face belongs to the gateway, which will have its own protocol",
    "X-SAGE-5": "the required check is part of validation, with all other violations",
    "X-SAGE-6": "what a proxy tool returns belongs to the connections",
    "X-SAGE-7": "importing any module a caller names is not offered at all",
    "X-SAGE-8": "choosing tools belongs to search",
}
"""Parity items of the first document that are elsewhere, or nowhere on purpose."""
