"""Allow and deny lists for servers: what an entry runs or reaches, and whether that is allowed."""

import re
from collections.abc import Iterable, Sequence

import msgspec

from pegboard.config.servers import ServerConfig
from pegboard.model.tool_names import name_matcher

__all__ = ["ServerApproval", "identities_of", "steers_runner"]

_STEERING = re.compile(
    r"PATH|LD_\w+|DYLD_\w+|NODE_OPTIONS|NODE_PATH|NODE_EXTRA_CA_CERTS|NODE_TLS_REJECT_UNAUTHORIZED"
    r"|NPM_CONFIG_\w+|UV_\w+|PIP_\w+|PYTHON\w*|BASH_ENV|ENV|SHELLOPTS|DOCKER_\w+|DOTNET_\w+"
    r"|NUGET_\w+|GIT_\w+|PERL5\w+|RUBYOPT|JAVA_TOOL_OPTIONS|HOME|USERPROFILE|TMPDIR|SHELL"
    r"|(?:HTTPS?|ALL|NO)_PROXY|SSL_CERT_\w+|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE|IFS",
    re.IGNORECASE,
)
_FLAGS = frozenset({"-y", "--yes", "-q", "--quiet", "-i", "--interactive", "--rm", "--init"})
_VALUED = frozenset(
    {"-e", "--env", "-v", "--volume", "--mount", "-w", "--workdir", "-u", "--user", "--python"}
)
_RUNNERS = {"npx": "npm", "uvx": "pypi", "dnx": "nuget", "docker": "oci", "podman": "oci"}
_VERSION = {
    "npm": re.compile(r"(?<=.)@[^/@]*\Z"),
    "pypi": re.compile(r"(?:==|@).*\Z"),
    "nuget": re.compile(r"@.*\Z"),
    "oci": re.compile(r"(?::[^/:@]*)?(?:@sha256:.*)?\Z"),
}


def steers_runner(variable: str) -> bool:
    """Tell whether an environment variable changes which program a runner runs, or from where."""
    return _STEERING.fullmatch(variable) is not None


def identities_of(config: ServerConfig) -> tuple[str, ...]:
    """Return what the patterns of the lists are compared with.

    It is what the entry runs or reaches (``npm:@acme/x``, ``https://mcp.acme.com/mcp``, or
    ``command:/usr/bin/x``), and the name in the registry that it was added from.
    """
    if config.transport == "stdio":
        runs = _package_of(config) or f"command:{config.command}"
    elif config.transport == "memory":
        # The program that Pegboard is a part of made it.
        return ()
    else:
        runs = config.url or ""
    origin = config.registry
    return (runs,) if origin is None else (runs, origin.name)


class ServerApproval(msgspec.Struct, frozen=True, kw_only=True):
    """Which servers may be used; without patterns, all of them."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()

    def objection(self, config: ServerConfig) -> str:
        """Return why a server may not be used; empty if it may."""
        if not self.allow and not self.deny:
            return ""
        identities = identities_of(config)
        if not identities:
            return ""
        shown = " or ".join(map(repr, identities))
        if _is_any_in(identities, self.deny):
            return f"`registry.deny` forbids {shown}"
        if self.allow and not _is_any_in(identities, self.allow):
            return f"`registry.allow` has no pattern for {shown}"
        return ""


def _is_any_in(names: Iterable[str], patterns: Sequence[str]) -> bool:
    matches = name_matcher("registry", patterns)
    return any(map(matches, names))


def _package_of(config: ServerConfig) -> str:
    """Return the package that a command line runs for certain; empty for any other command."""
    runner = config.command or ""
    kind = _RUNNERS.get(runner)
    if kind is None or any(map(steers_runner, config.env)):
        return ""
    args = iter(config.args)
    if kind == "oci" and next(args, "") != "run":
        return ""
    name = ""
    for word in args:
        if word in _VALUED:
            next(args, "")
        elif kind == "pypi" and word == "--from":
            name = next(args, "")
            break
        elif word.startswith("-"):
            if word not in _FLAGS:
                return ""
        else:
            name = word
            break
    return f"{kind}:{_VERSION[kind].sub('', name, count=1)}" if name else ""
