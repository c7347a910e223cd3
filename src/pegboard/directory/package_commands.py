"""Command lines of packages, for npx, uvx, docker and dnx: pinned, with harmless options."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from pegboard.directory.input_values import (
    GivenValue,
    GivenValues,
    argument_name,
    filled,
    is_flag,
    written,
)
from pegboard.directory.server_json import Package, PackageArgument
from pegboard.errors import UnsupportedPackageError

__all__ = ["PackageCommand", "command_of", "image_of", "pinned_spec", "why_not_runnable"]

_NPM_NAME = re.compile(r"(?=.{1,214}\Z)(?:@[a-z0-9~][a-z0-9._~-]*/)?[a-zA-Z0-9~][\w.~-]*", re.ASCII)
_NPM_VERSION = re.compile(r"\d+\.\d+\.\d+(?:[-+][0-9A-Za-z.+-]+)?")
_PYPI_NAME = re.compile(r"(?=.{1,200}\Z)[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_PYPI_VERSION = re.compile(r"(?:\d+!)?\d+(?:\.\d+)*[0-9A-Za-z.+_-]*")
_NUGET_NAME = re.compile(r"(?=.{1,100}\Z)[A-Za-z0-9_][\w.-]*", re.ASCII)
_PATTERNS = {
    "npm": (_NPM_NAME, _NPM_VERSION),
    "pypi": (_PYPI_NAME, _PYPI_VERSION),
    "nuget": (_NUGET_NAME, _NPM_VERSION),
}
_IMAGE = re.compile(
    r"(?=.{1,500}\Z)(?P<name>(?:[A-Za-z0-9.-]+(?::\d+)?/)?[a-z0-9]+(?:[._/-]+[a-z0-9]+)*)"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?(?P<digest>@sha256:[0-9a-f]{64})?",
    re.ASCII,
)
_HOST = re.compile(r"(?:https?://)?([A-Za-z0-9.-]+(?::\d+)?)/?")
_OPTION = re.compile(r"-{0,2}[A-Za-z0-9][\w.:-]{0,100}", re.ASCII)
_SCRIPT = re.compile(r"[A-Za-z0-9][\w.-]{0,100}", re.ASCII)
_PYTHON = re.compile(r"\d+(?:\.\d+){0,2}")
_VOLUME = re.compile(r"[A-Za-z0-9][\w.-]{0,200}", re.ASCII)
_MOUNT_SOURCES = frozenset({"src", "source"})
_MOUNT_FIELDS = _MOUNT_SOURCES | {"type", "target", "dst", "destination", "readonly", "ro"}
_NAMED = "\0"
"""Stands for a value of the person; no text of an entry has this character."""

_NPX_FLAGS = frozenset({"-y", "--yes", "-q", "--quiet"})
_UVX_FLAGS = frozenset({"-q", "--quiet"})
_DNX_FLAGS = frozenset({"-y", "--yes"})
_DOCKER_FLAGS = frozenset({"-i", "--interactive", "--rm", "--init", "-it", "-ti", "-t", "--tty"})
_DOCKER_ENV = ("-e", "--env")
_DOCKER_MOUNTS = ("-v", "--volume", "--mount")
_DOCKER_VALUED = frozenset({*_DOCKER_MOUNTS, "-w", "--workdir", "-u", "--user"})


class PackageCommand(NamedTuple):
    """What runs a package: texts of the configuration."""

    command: str
    args: list[str]
    env: dict[str, str]
    """What the command line itself needs in the environment."""


def why_not_runnable(package: Package) -> str:
    """Return why a package cannot be run by Pegboard; empty if it can."""
    kind, name, version = package.registry_type, package.identifier, package.version
    if package.transport.type != "stdio":
        return (
            f"the package {name!r} serves {package.transport.type!r} at an address, so it has to "
            "be started apart from Pegboard"
        )
    if kind == "mcpb":
        return _needs_of_bundle(package)
    if kind == "oci":
        return "" if image_of(package) else f"the image {name!r} is not pinned to a version"
    patterns = _PATTERNS.get(kind)
    if patterns is None:
        return f"packages of the kind {kind!r} are not supported"
    if not patterns[0].fullmatch(name):
        return f"{name!r} is not the name of a package of {kind}"
    is_pinned = patterns[1].fullmatch(version)
    return "" if is_pinned else f"the {kind} package {name} has no pinned version, but {version!r}"


def pinned_spec(package: Package) -> str:
    """Return the word of the command line that names the package and its version."""
    separator = "==" if package.registry_type == "pypi" else "@"
    if package.registry_type == "oci":
        return image_of(package)
    return f"{package.identifier}{separator}{package.version}"


def image_of(package: Package) -> str:
    """Return the image with its version or digest; empty if it has neither."""
    found = _IMAGE.fullmatch(package.identifier)
    if found is None:
        return ""
    name, tag, digest = found["name"], found["tag"], found["digest"]
    tag = tag or (package.version if re.fullmatch(r"\w[\w.-]{0,127}", package.version) else "")
    host = _HOST.fullmatch(package.registry_base_url)
    first, _, rest = name.partition("/")
    has_host = bool(rest) and any(it in first for it in ".:")
    place = f"{host[1]}/{name}" if host is not None and not has_host else name
    if digest:
        return f"{place}{f':{tag}' if tag else ''}{digest}"
    return f"{place}:{tag}" if tag and tag != "latest" else ""


def command_of(package: Package, given: GivenValues, env: Sequence[str] = ()) -> PackageCommand:
    """Return the command line of a package that is runnable.

    Args:
        package: what is run.
        given: the values that it asks for.
        env: the names of the variables that it is given; a container gets them by name.

    Raises:
        UnsupportedPackageError: when an argument would change what is run, or with which rights.
    """
    program = list(_words(package.package_arguments, given))
    return _RUNNERS[package.registry_type](package, given, program, env)


def _npx(
    package: Package, given: GivenValues, program: list[str], _: Sequence[str]
) -> PackageCommand:
    for argument, _, words in _each(package.runtime_arguments, given):
        _expect(words[0] in _NPX_FLAGS or _is_package(words[0], package), argument, words)
    return PackageCommand("npx", ["-y", pinned_spec(package), *program], {})


def _uvx(
    package: Package, given: GivenValues, program: list[str], _: Sequence[str]
) -> PackageCommand:
    options: list[str] = []
    script = ""
    for argument, _, words in _each(package.runtime_arguments, given):
        name, value = words[0], words[-1] if len(words) > 1 else ""
        if name in ("--python", "-p") and _PYTHON.fullmatch(value):
            options += ["--python", value]
        elif name == "--from" and _is_package(value, package):
            script = script or package.identifier
        elif script and len(words) == 1 and _SCRIPT.fullmatch(name):
            script = name
        else:
            _expect(name in _UVX_FLAGS or _is_package(name, package), argument, words)
    if script:
        return PackageCommand(
            "uvx", [*options, "--from", pinned_spec(package), script, *program], {}
        )
    return PackageCommand("uvx", [*options, pinned_spec(package), *program], {})


def _dnx(
    package: Package, given: GivenValues, program: list[str], _: Sequence[str]
) -> PackageCommand:
    for argument, _, words in _each(package.runtime_arguments, given):
        _expect(words[0] in _DNX_FLAGS or _is_package(words[0], package), argument, words)
    behind = ["--", *program] if program else []
    return PackageCommand("dnx", [pinned_spec(package), "--yes", *behind], {})


def _docker(
    package: Package, given: GivenValues, program: list[str], env: Sequence[str]
) -> PackageCommand:
    options: list[str] = []
    variables: dict[str, str] = {}
    for argument, key, words in _each(package.runtime_arguments, given):
        name, value = words[0], words[-1] if len(words) > 1 else ""
        if name in _DOCKER_ENV and value:
            # The value stays out of the command line, which every user of the machine can see.
            variable, equals, content = value.partition("=")
            if equals:
                variables[variable] = content
            elif variable not in env:
                _expect(ok=False, argument=argument, words=words)
        elif name in _DOCKER_VALUED and value:
            if name in _DOCKER_MOUNTS:
                _check_mount(argument, key, given)
            options += [name, value]
        else:
            _expect(name in _DOCKER_FLAGS or _is_package(name, package), argument, words)
    names = [word for it in dict.fromkeys((*env, *variables)) for word in ("-e", it)]
    args = ["run", "-i", "--rm", *names, *options, image_of(package), *program]
    return PackageCommand("docker", args, variables)


_RUNNERS: dict[str, Callable[[Package, GivenValues, list[str], Sequence[str]], PackageCommand]] = {
    "npm": _npx,
    "pypi": _uvx,
    "nuget": _dnx,
    "oci": _docker,
}


def _each(
    arguments: Sequence[PackageArgument], given: GivenValues
) -> Iterator[tuple[PackageArgument, str, list[str]]]:
    for number, argument in enumerate(arguments, 1):
        key = argument_name(argument, number)
        for words in _words_of(argument, key, given):
            yield argument, key, words


def _words(arguments: Sequence[PackageArgument], given: GivenValues) -> Iterator[str]:
    for _, _, words in _each(arguments, given):
        yield from words


def _words_of(argument: PackageArgument, key: str, given: GivenValues) -> Iterator[list[str]]:
    """Give the words of an argument, once for each of its values."""
    name = argument.name.strip()
    if argument.type == "named" and not _OPTION.fullmatch(name):
        raise UnsupportedPackageError(f"The entry has an argument with the name {name[:80]!r}.")
    if is_flag(argument):
        yield [name]
        return
    for parts in filled(argument, key, given):
        text = written(parts)
        if not text.isprintable():
            raise UnsupportedPackageError(f"The value of {key!r} is not text on one line.")
        is_given = argument.value is None
        if argument.type == "named" and argument.format == "boolean" and is_given:
            yield from [[name]] if text == "true" else []
        elif not (is_given and text.startswith("-")):
            yield [name, text] if argument.type == "named" else [text]
        elif name.startswith("--"):
            yield [f"{name}={text}"]
        else:
            raise UnsupportedPackageError(
                f"The value of {name or key!r} begins with `-`, so the program would read it as "
                "an option."
            )


def _needs_of_bundle(package: Package) -> str:
    digest = _shown(package.file_sha256) or "what the publisher says"
    place = _shown(package.identifier)
    return (
        f"it is a bundle (MCPB). Download {place}, check that its SHA-256 is {digest}, unpack it "
        "(it is a ZIP file), and add what `mcp_config` in its `manifest.json` says with "
        "`pegboard add NAME -- COMMAND ARGUMENTS`"
    )


def _shown(text: str) -> str:
    return text if text.isprintable() else repr(text)


def _is_package(word: str, package: Package) -> bool:
    """Tell whether a word names the package itself, as some entries do once more."""
    name = package.identifier
    return word == name or word.startswith((f"{name}@", f"{name}==", f"{name}:"))


def _check_mount(argument: PackageArgument, key: str, given: GivenValues) -> None:
    """Refuse a folder of this machine that the entry chose, and not the person."""
    marked = {name: [GivenValue(_NAMED)] for name, values in given.items() if values}
    for parts in filled(argument, key, marked):
        text = "".join(it.text for it in parts)
        if text != _NAMED and not _is_harmless_mount(argument.name.strip(), text):
            shown = text.replace(_NAMED, "…")[:200]
            raise UnsupportedPackageError(
                f"The entry wants a folder of this machine in the container: {shown!r}. Only "
                "folders that you name yourself, with `--env`, are handed over."
            )


def _is_harmless_mount(option: str, text: str) -> bool:
    """Tell whether a mount shows a volume, or a folder that the person has named, and no other."""
    if option != "--mount":
        source, colon, _ = text.partition(":")
        return bool(colon) and _is_harmless_source(source)
    # Docker reads it as CSV, in capitals too, and takes the last of several sources. The options of
    # a volume can make a folder of it.
    fields = [it.partition("=") for it in text.split(",")]
    sources = [value for name, _, value in fields if name.lower() in _MOUNT_SOURCES]
    is_known = all(name.lower() in _MOUNT_FIELDS for name, _, _ in fields)
    return is_known and '"' not in text and len(sources) == 1 and _is_harmless_source(sources[0])


def _is_harmless_source(source: str) -> bool:
    is_in_named = source.startswith(_NAMED) and ".." not in source
    return is_in_named or _VOLUME.fullmatch(source) is not None


def _expect(ok: bool, argument: PackageArgument, words: Sequence[str]) -> None:  # noqa: FBT001 - what is checked
    if not ok:
        shown = " ".join(words) if argument.value is not None or is_flag(argument) else words[0]
        raise UnsupportedPackageError(
            f"The entry wants the option {shown[:200]!r} for the program that runs the package, "
            "and such options can change what is run, or with which rights. If you trust it, add "
            "the server with `pegboard add NAME -- COMMAND`."
        )
