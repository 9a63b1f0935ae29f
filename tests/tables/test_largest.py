"""Large files of each kind: each is read, or refused, within four gigabytes."""

import io
import json
import subprocess
import sys
import zipfile

import pytest
from damage import samples

pytestmark = pytest.mark.long
MEGABYTE = 1_000_000
MOST = 4000
"""Megabytes of the whole process, by its own count: what `resource` tells includes the process that started it."""
READ = """
import sys
from pathlib import Path
from mate_cli.errors import MateError
from mate_cli.tables.read import open_table
try:
    print(len(open_table(sys.argv[1])), "rows")
except MateError as error:
    print(error)
print(int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) / 1000)
"""
OBJECT = json.dumps({f"k{number}": number * 1.5 for number in range(20)})
SHEET = b'<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>'


def filled(start, piece, end, megabytes):
    """A text of about so many megabytes."""
    return start + piece * (megabytes * MEGABYTE // len(piece.encode())) + end


def parquet(columns, **how):
    import pyarrow
    from pyarrow.parquet import write_table

    file = io.BytesIO()
    write_table(pyarrow.table(columns), file, **{"use_dictionary": False, **how})
    return file.getvalue()


def workbook(part, change):
    """The sample with one part changed."""
    file = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(samples()["j.xlsx"])) as source,
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as to,
    ):
        for name in source.namelist():
            to.writestr(name, change(source.read(name)) if name == part else source.read(name))
    return file.getvalue()


def in_sheet(piece, megabytes, start=b""):
    rows = start + piece * (megabytes * MEGABYTE // len(piece))
    return workbook("xl/worksheets/sheet1.xml", lambda _: SHEET + rows + b"</sheetData></worksheet>")


LARGEST = {
    "rows.csv": lambda: filled("a" + ",b" * 19 + "\n", "12345.5," * 19 + "1\n", "", 120),
    "columns.csv": lambda: filled("", "я," * 15_999 + "я\n", "", 30),
    "objects.json": lambda: filled("[", OBJECT + ",\n", OBJECT + "]", 24),
    "objects.jsonl": lambda: filled("", OBJECT + "\n", "", 120),
    "texts.parquet": lambda: parquet({"a": ["😀" + "x" * 1_500_000] * 128}),
    "columns.parquet": lambda: parquet({f"c{n}": [f"{row}-{n}" for row in range(300_000)] for n in range(20)}),
    "rows.xlsx": lambda: in_sheet(b"<row>" + b"<c><v>12.5</v></c>" * 20 + b"</row>", 60),
    "merged areas.xlsx": lambda: in_sheet(b'<mergeCell ref="A1:B2"/>', 50),
    "texts.xlsx": lambda: workbook("xl/sharedStrings.xml", lambda _: b"<sst>" + b"<si><t>1</t></si>" * 5_500_000),
    "styles.xlsx": lambda: workbook(
        "xl/styles.xml", lambda old: old.replace(b"<cellXfs", b"<xf/>" * 700_000 + b"<cellXfs")
    ),
}


@pytest.mark.parametrize("name", LARGEST)
def test_the_largest_files_fit(name, tmp_path):
    content = LARGEST[name]()
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    done = subprocess.run(
        [sys.executable, "-c", READ, str(tmp_path / name)], capture_output=True, text=True, check=True
    )
    *said, peak = done.stdout.splitlines()
    assert said
    assert float(peak) < MOST, said
