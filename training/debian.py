"""Debian's package descriptions, in English and Chinese, and packages by their names."""

import re
import subprocess
from pathlib import Path
from typing import NamedTuple

from training.places import work_folder

_SETTINGS = """\
#clear Acquire::Languages;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
Acquire::Languages {{ "en"; "zh_CN"; "zh_TW"; }};
Acquire::GzipIndexes "false";
APT::Sandbox::User "root";
Dir::State::lists "{folder}/lists";
Dir::Cache "{folder}/cache";
"""
_ENTRY = re.compile(r"^Description-md5: (\w+)\nDescription-\w+: (.*)((?:\n .*)*)", re.MULTILINE)
_FIRST_SENTENCE = re.compile(r"(.{20,250}?[.!?])(?:\s|$)")
_CHINESE_SENTENCES = 4


class DebianTexts(NamedTuple):
    """Short texts about software."""

    summaries: list[str]
    """One line a package."""
    english: list[str]
    """The summaries, and the first sentences of what else is said."""
    chinese: list[str]
    translated: list[tuple[str, str]]
    """Summaries in Chinese and English."""


class _Description(NamedTuple):
    summary: str
    text: str


def read_debian() -> DebianTexts:
    """Return the descriptions of all packages of this machine's Debian; fetched once."""
    english = _descriptions("en")
    chinese = [_descriptions("zh%5fCN"), _descriptions("zh%5fTW")]
    short: set[str] = set()
    pairs: set[tuple[str, str]] = set()
    for language in chinese:
        for key, it in language.items():
            sentences = re.split("(?<=[。！？])", it.text)[:_CHINESE_SENTENCES]  # noqa: RUF001 - Chinese
            short |= {it.summary, *(one.strip() for one in sentences if 6 <= len(one) <= 200)}
            if key in english:
                pairs.add((it.summary, english[key].summary))
    summaries = {it.summary for it in english.values()}
    sentences = (_FIRST_SENTENCE.match(it.text) for it in english.values())
    return DebianTexts(
        summaries=sorted(summaries),
        english=sorted(summaries | {found[1] for found in sentences if found}),
        chinese=sorted(short),
        translated=sorted(pairs),
    )


def unpack(package: str) -> Path:
    """Return the folder with the files of a Debian package; fetched once."""
    folder = work_folder(package)
    files = folder / "files"
    if not files.exists():
        _apt("download", package, folder=folder)
        (archive,) = folder.glob("*.deb")
        unpacked = folder / "unpacked"
        _run("dpkg-deb", "--extract", str(archive), str(unpacked), folder=folder)
        unpacked.rename(files)
    return files


def _descriptions(language: str) -> dict[str, _Description]:
    found: dict[str, _Description] = {}
    for path in _lists(f"*_main_i18n_Translation-{language}"):
        for key, summary, lines in _ENTRY.findall(path.read_text("utf-8")):
            text = " ".join(line.strip() for line in lines.split("\n")).strip()
            found[key] = _Description(summary.strip(), text)
    return found


def _lists(pattern: str) -> list[Path]:
    folder = work_folder("apt/lists")
    if not list(folder.glob(pattern)):
        _apt("update", folder=folder)
    return sorted(folder.glob(pattern))


def _apt(*arguments: str, folder: Path) -> None:
    own = work_folder("apt")
    settings = own / "apt.conf"
    settings.write_text(_SETTINGS.format(folder=own), "utf-8")
    for name in ("lists/partial", "cache/archives/partial"):
        work_folder(f"apt/{name}")
    _run("apt-get", f"--config-file={settings}", "--quiet", *arguments, folder=folder)


def _run(*command: str, folder: Path) -> None:
    try:
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - our own words
    except FileNotFoundError as error:
        raise SystemExit(
            f"There is no `{command[0]}` here: make the table on a Debian machine or container."
        ) from error
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"`{' '.join(command)}` failed; see above.") from error
