"""The page about what goes wrong has every code of the doctor, and no other."""

import re
from pathlib import Path

from pegboard import doctor

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/guides/troubleshooting.md").read_text("utf-8")
ROW = re.compile(r"^\| `(\w+)` \| (.+) \| (.+) \|$", re.MULTILINE)


def test_every_code_of_the_doctor_has_a_row_of_its_own() -> None:
    codes = [code for code, _, _ in ROW.findall(PAGE)]
    assert sorted(codes) == sorted(doctor.CODES)


def test_every_public_name_of_the_doctor_is_in_the_reference() -> None:
    words = set(re.findall(r"\w+", (ROOT / "docs/reference/doctor.md").read_text("utf-8")))
    assert set(doctor.__all__) - words == set()
