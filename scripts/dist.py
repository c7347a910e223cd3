"""`make dist`: build the sdist and the wheel of the last commit into dist/, and check them.

The packages are built from a clone of the commit, so nothing uncommitted slips in, and with the
time of the commit, so the same commit gives the same bytes.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

__all__ = ["build", "problems_of"]

ROOT = Path(__file__).resolve().parent.parent
UV = ROOT / ".tools" / "bin" / "uv"
BESIDES = {".gitignore", "LICENSE", "PKG-INFO", "README.md", "pyproject.toml"}
"""The files of the sdist that are neither source nor changelog."""


def build(into: Path) -> list[Path]:
    """Build the sdist and the wheel of the last commit."""
    shutil.rmtree(into, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="pegboard-dist-") as folder:
        clone = Path(folder) / "pegboard"
        _run("git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(clone))
        seconds = _run("git", "log", "-1", "--format=%ct", at=clone).strip()
        environment = {**os.environ, "SOURCE_DATE_EPOCH": seconds}
        # The wheel is built from the sdist, so the sdist has all that it needs.
        command = (str(UV), "build", "--quiet", "--python", sys.executable, "--out-dir", str(into))
        _run(*command, at=clone, env=environment)
    (into / ".gitignore").unlink(missing_ok=True)
    return sorted(into.iterdir())


def problems_of(package: Path) -> list[str]:
    """Return what a package has and should not, and what it lacks, by the files of the commit."""
    tracked = set(_run("git", "ls-tree", "-r", "--name-only", "HEAD").splitlines())
    source = {name for name in tracked if name.startswith("src/pegboard/")}
    changes = {name for name in tracked if name.startswith("changelog.d/")}
    if package.suffix == ".whl":
        expected = {name.removeprefix("src/") for name in source}
        expected |= {f"pegboard/{name}" for name in changes}
        found = {it for it in zipfile.ZipFile(package).namelist() if ".dist-info/" not in it}
    else:
        expected = source | changes | BESIDES
        with tarfile.open(package) as archive:
            found = {it.name.partition("/")[2] for it in archive.getmembers() if it.isfile()}
    unwanted = [f"{package.name} has {name}" for name in sorted(found - expected)]
    return unwanted + [f"{package.name} lacks {name}" for name in sorted(expected - found)]


def _run(*command: str, at: Path = ROOT, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(  # noqa: S603 - git and uv
        command, cwd=at, env=env, check=True, stdout=subprocess.PIPE, encoding="utf-8"
    )
    return done.stdout


def main() -> int:
    """Build, check, and print the name, the size and the digest of each package."""
    tell = sys.stdout.write
    if _run("git", "status", "--porcelain"):
        tell("The checkout has changes that are not committed; they are left out.\n")
    packages = build(ROOT / "dist")
    for package in packages:
        data = package.read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        tell(f"dist/{package.name}  {len(data) / 1e6:.2f} MB  sha256:{digest}\n")
    problems = [problem for package in packages for problem in problems_of(package)]
    sys.stderr.writelines(f"{problem}\n" for problem in problems)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
