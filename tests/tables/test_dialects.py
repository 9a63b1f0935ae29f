"""Delimited text in the dialects that programs and people write: read cell for cell."""

from __future__ import annotations

import csv
import io
import random
import re
import tarfile

import pytest
from golden import shared
from hypothesis import given, settings
from hypothesis import strategies as st
from written_tables import cells_of

from mate_cli.errors import DataError
from mate_cli.tables.formats.delimited import read_delimited
from mate_cli.tables.read import read_table
from mate_cli.tables.read_options import ReadOptions

BATCHES = settings().max_examples * 5
"""Examples of ten tables each."""
MISFIT = "Some quotation marks do not fit together; those of no whole cell were read as text."
ESCAPED = "Backslashes were read as escape characters."
NAMELESS = "1 column without a name: called column 1."


def above(count: int, text: str) -> str:
    start = "1 line" if count == 1 else f"{count} lines"
    return f"{start} above the table read as its title: {text!r}."


def parted(by: str) -> str:
    return f"Columns are separated by {by}."


def lines_of(path, **options):
    table, notes = read_table(path, ReadOptions(**options))
    return [[cell.text for cell in line] for line in (table.header, *table.rows)], notes


FILES = {
    "marks never closed, two of them": ("t.tsv",
        'id\ttitle\tyear\n1\t"Rome, open\t1945\n2\tPlain\t1946\n3\tWild days\t1947\n4\t"Giants\t1948\n5\tLast\t1949\n',
        'id | title | year / 1 | "Rome, open | 1945 / 2 | Plain | 1946 / 3 | Wild days | 1947'
        ' / 4 | "Giants | 1948 / 5 | Last | 1949',
        [MISFIT]),
    "one never opened, one never closed": ("t.csv",
        'id,title,year\n1,"Rome,1945\n2,Giants",1948\n3,Plain,1950\n4,Wild,1951\n',
        'id | title | year / 1 | "Rome | 1945 / 2 | Giants" | 1948 / 3 | Plain | 1950 / 4 | Wild | 1951', [MISFIT]),
    "marks inside a quotation": ("t.csv", 'title,year\n"A "Blue, best" Song",1999\nPlain,2000\n',
        'title | year / A "Blue, best" Song | 1999 / Plain | 2000', [MISFIT]),
    "addresses of several lines": ("t.csv", 'id,at\n1,"Main St 5\nParis, France"\n2,"Side St 7\nRome, Italy"\n',
        "id | at / 1 | Main St 5\nParis, France / 2 | Side St 7\nRome, Italy", []),
    "addresses of two parts": ("t.csv", 'id,at\n1,"Main St 5\nParis,FR"\n2,"Side St 7\nRome,IT"\n',
        "id | at / 1 | Main St 5\nParis,FR / 2 | Side St 7\nRome,IT", []),
    "addresses as wide as the table": ("t.csv", 'id,name,at\n1,Ann,"Main St 5\n75001, Paris, France"\n2,Bo,X\n3,Cy,Y\n',
        "id | name | at / 1 | Ann | Main St 5\n75001, Paris, France / 2 | Bo | X / 3 | Cy | Y", []),
    "semicolons, with a comma in each row": ("t.csv",
        "Nr;Name, Vorname;Betrag\n1;Meier, Jan;100\n2;Huber, Ute;200\n3;Kunz, Eva;300\n",
        "Nr | Name, Vorname | Betrag / 1 | Meier, Jan | 100 / 2 | Huber, Ute | 200 / 3 | Kunz, Eva | 300",
        [parted("semicolons")]),
    "commas, with a list in each row": ("t.csv", "name,tags,n\nA,x;y,1\nB;C,z;w,2\n",
        "name | tags | n / A | x;y | 1 / B;C | z;w | 2", []),
    "a remark above": ("t.csv", "# exported\nname,n,m\nA,1,2\nB,3,4\n",
        "name | n | m / A | 1 | 2 / B | 3 | 4", [above(1, "# exported")]),
    "a remark as wide as the table": ("t.csv", "# a, b, c\nname,n,m\nA,1,2\nB,3,4\n",
        "name | n | m / A | 1 | 2 / B | 3 | 4", [above(1, "# a b c")]),
    "a header that begins with a sign": ("t.csv", "#,name\n1,A\n2,B\n", "# | name / 1 | A / 2 | B", []),
    "two titles": ("t.csv", "Table 1. Sales by region\nin thousand euro\n\nregion,q1\nN,0\nS,1\nW,2\n",
        "region | q1 / N | 0 / S | 1 / W | 2", [above(2, "Table 1. Sales by region in thousand euro")]),
    "the World Bank's head": ("t.csv",
        '"Data Source","World Indicators",\n\n"Last Updated Date","2024-03-28",\n\n'
        '"Country Name","Country Code","2019","2020",\n"C0","X0","0","1",\n"C1","X1","1","2",\n"C2","X2","2","3",\n',
        "Country Name | Country Code | 2019 | 2020 / C0 | X0 | 0 | 1 / C1 | X1 | 1 | 2 / C2 | X2 | 2 | 3",
        [above(2, "Data Source World Indicators Last Updated Date 2024-03-28")]),
    "a line with a comma above": ("t.csv", "Source: World Bank, 2020\nNotes: none\n\nregion,sales\nN,10\nS,20\nW,30\n",
        "region | sales / N | 10 / S | 20 / W | 30", [above(2, "Source: World Bank 2020 Notes: none")]),
    "lines below": ("t.csv", "region,q1,q2\nN,1,2\nS,3,4\n\nSource: Statistics, 2020\n* provisional\n",
        "region | q1 | q2 / N | 1 | 2 / S | 3 | 4",
        ["2 lines below the table left out: 'Source: Statistics 2020 * provisional'."]),
    "a short last row": ("t.csv", "region,sales\nN,10\nS,20\nW\n",
        "region | sales / N | 10 / S | 20 / W | ", ["1 row shorter than the header: filled with empty cells."]),
    "pandas' series": ("t.csv", ",n\nA,5\nB,6\n", "column 1 | n / A | 5 / B | 6", [NAMELESS]),
    "R's write.csv": ("t.csv", '"","n"\n"A",5\n"B",6\n', "column 1 | n / A | 5 / B | 6", [NAMELESS]),
    "R's write.table, with commas": ("t.csv", '"n","m"\n"A",1,2\n"B",3,4\n',
        "column 1 | n | m / A | 1 | 2 / B | 3 | 4", [NAMELESS]),
    "R's write.table": ("t.txt", '"n" "m"\n"A" 1 2\n"B b" 3 4\n',
        "column 1 | n | m / A | 1 | 2 / B b | 3 | 4", [parted("spaces"), NAMELESS]),
    "R's write.table of one column": ("t.csv", '"n"\n"1",5\n"2",7\n', "column 1 | n / 1 | 5 / 2 | 7", [NAMELESS]),
    "backslashes": ("t.csv",
        '"Title","Year","Note"\n"A \\"Blue\\" Song","1999","x"\n"Plain","2000","says \\"no, never\\", twice"\n',
        'Title | Year | Note / A "Blue" Song | 1999 | x / Plain | 2000 | says "no, never", twice', [ESCAPED]),
    "backslashes without quotation": ("t.csv", "city,n\nParis\\, France,1\nRome,2\n",
        "city | n / Paris, France | 1 / Rome | 2", [ESCAPED]),
    "paths of Windows": ("t.csv", 'p,n\n"C:\\new\\",1\n"D:\\x\\",2\n', "p | n / C:\\new\\ | 1 / D:\\x\\ | 2", []),
    "spaces before quotation marks": ("t.csv", 'id, name, amount\n1, "Smith, John", "1,204"\n2, "Doe, Jane", 980\n',
        "id | name | amount / 1 | Smith, John | 1,204 / 2 | Doe, Jane | 980", []),
    "apostrophes": ("t.csv", "'id','name'\n1,'Smith, John'\n2,'O''Neil'\n",
        "id | name / 1 | Smith, John / 2 | O'Neil", ["Apostrophes were read as quotation marks."]),
    "apostrophes around some cells below a title": ("t.csv", "Sales of 2024\na;b;c\n'x; y';1;z\n'v; w';2;'p; q; r'\n",
        "a | b | c / x; y | 1 | z / v; w | 2 | p; q; r",
        [parted("semicolons"), "Apostrophes were read as quotation marks.", above(1, "Sales of 2024")]),
    "apostrophes that are text": ("t.csv", "id,song\n1,'Hello'\n2,'Bye'\n", "id | song / 1 | 'Hello' / 2 | 'Bye'", []),
    "number signs": ("t.csv", "name#n\nA#1\nB#2\n", "name | n / A | 1 / B | 2", [parted("'#'")]),
    "carets": ("t.csv", "a^b\n1^2\n3^4\n", "a | b / 1 | 2 / 3 | 4", [parted("'^'")]),
    "tildes": ("t.txt", "a~b\nx, y~2\nz~4\n", "a | b / x, y | 2 / z | 4", [parted("'~'")]),
    "spaces": ("t.txt", "name value\nA 1\nB 2\n", "name | value / A | 1 / B | 2", [parted("spaces")]),
    "columns of fixed width": ("t.txt",
        "name      value  city\nAnn Berg     10  New York\nBo          200  Rome\nCy               Oslo\n",
        "name | value | city / Ann Berg | 10 | New York / Bo | 200 | Rome / Cy |  | Oslo",
        ["Columns are aligned with spaces."]),
    "a printed data frame of texts": ("t.txt",
        "  name        state\n0 north; up   open \n1 south       closed\n2               open\n",
        "column 1 | name | state / 0 | north; up | open / 1 | south | closed / 2 |  | open",
        ["Columns are aligned with spaces.", NAMELESS]),
    "a printed data frame": ("t.txt", "   region  sales\n0   North     10\n1   South     20\n",
        "column 1 | region | sales / 0 | North | 10 / 1 | South | 20", ["Columns are aligned with spaces.", NAMELESS]),
}  # fmt: skip
ONE_COLUMN = {
    "numbers with commas": ["n", "1,204", "2,980"],
    "groups with spaces": ["n", "12 500", "1 000"],
    "dates in words": ["d", "3 March 2019", "15 March 2019"],
    "lists": ["v", "1,2,3", "4,5,6"],
    "sentences": ["comment", "hello, you", "well, well, well", "ok"],
}


@pytest.mark.parametrize("name", FILES)
def test_files_as_programs_and_people_leave_them(tmp_path, name):
    file, text, expected, notes = FILES[name]
    (tmp_path / file).write_text(text, newline="")
    assert lines_of(tmp_path / file) == (cells_of(expected), notes)


@pytest.mark.parametrize("name", ONE_COLUMN)
def test_what_is_one_column_says_so(tmp_path, name):
    (tmp_path / "t.csv").write_text("\n".join(ONE_COLUMN[name]) + "\n")
    expected = [[text] for text in ONE_COLUMN[name]]
    assert lines_of(tmp_path / "t.csv") == (
        expected, ["No delimiter was found: the table has one column (delimiter=... splits it)."],
    )  # fmt: skip


def test_the_whole_file_decides(tmp_path):
    """Of the first 300 kB each line has one semicolon and one comma; only what follows tells which parts the cells."""
    start = "".join(f"item {number};left, right\n" for number in range(12_000))
    (tmp_path / "t.txt").write_text("name;place\n" + start + "".join(f"item {n};home\n" for n in range(8_000)))
    found, _ = lines_of(tmp_path / "t.txt")
    assert found[:2] + found[-1:] == [["name", "place"], ["item 0", "left, right"], ["item 7999", "home"]]


TITLED = "Sales\nnorth;1\nsouth;2\n"
TYPED = {
    "the second line": ({"header": 2}, [["north", "1"], ["south", "2"]]),
    "no header": ({"header": 0}, [["column 1", "column 2"], ["Sales", ""], ["north", "1"], ["south", "2"]]),
    "a delimiter that is not there": ({"delimiter": "|"}, [["Sales"], ["north;1"], ["south;2"]]),
}


@pytest.mark.parametrize("name", TYPED)
def test_what_is_typed_holds(tmp_path, name):
    options, expected = TYPED[name]
    (tmp_path / "t.csv").write_text(TITLED)
    assert lines_of(tmp_path / "t.csv", **options)[0] == expected


def test_a_quotation_mark_that_is_typed_holds(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n'x',\"y\"\n")
    assert lines_of(tmp_path / "t.csv", quote="'")[0] == [["a", "b"], ["x", '"y"']]
    assert lines_of(tmp_path / "t.csv", quote="")[0] == [["a", "b"], ["'x'", '"y"']]


def test_a_header_line_that_is_not_there_is_refused(tmp_path):
    (tmp_path / "t.csv").write_text(TITLED)
    with pytest.raises(DataError, match=r"there is no line 9 in this table\. Write header=1 to header=3"):
        lines_of(tmp_path / "t.csv", header=9)


NAMES = [
    *("Ann", "Smith, John", "x; y", "a|b", "O'Neil", "k. A., siehe Seite 2", "Łódź", "C#", "", "-", "no. 7"),
    "well; then",
]
TEXTS = [*NAMES, 'say "hi"', '5" pipe', "two\nlines", "a, b\nc, d", '""', "tab\there", "so, then | be it"]
WORDS = ["region", "sales", "Name, Vorname", "n", "first quarter", "price (EUR)", "city", "note", "rate", "unit"]
ABOVE = ["", "", "Sales 2024\n", "Sales 2024\nin thousand\n\n", "# made by a program\n#\n"]
seeds = st.integers(0, 2**48)


def number(chance: random.Random) -> str:
    """A number in one of four ways of writing."""
    whole, grouped, point = chance.randint(-9999, 99999), chance.randint(0, 9_999_999), chance.random() * 1e4
    comma = f"{chance.random() * 1e4:,.2f}".translate(str.maketrans(",.", ".,"))
    return chance.choice((f"{whole}", f"{grouped:,}", f"{point:.2f}", comma))


def table(chance: random.Random, texts: list[str]) -> list[list[str]]:
    """A header and rows: one column of numbers at least, others of numbers or texts."""
    kinds = [True, *(chance.random() < 0.4 for _ in range(chance.randint(1, 5)))]
    chance.shuffle(kinds)
    filled = kinds.index(True)
    rows = [
        [
            number(chance)
            if place == filled or (is_number and chance.random() < 0.9)
            else is_number or chance.choice(texts)
            for place, is_number in enumerate(kinds)
        ]
        for _ in range(chance.randint(4, 12))
    ]
    return [chance.sample(WORDS, len(kinds)), *([cell if cell is not True else "" for cell in row] for row in rows)]


def text_of(lines: list[list[str]], chance: random.Random) -> str:
    """Write a table in one of many dialects, with or without lines above it."""
    delimiter, end = chance.choice(",;\t|"), chance.choice(["\n", "\r\n"])
    options = {
        "delimiter": delimiter,
        "quoting": chance.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]),
        **chance.choice([{}, {"doublequote": False, "escapechar": "\\"}]),
    }
    gap = chance.choice(["", "", " "]) if delimiter != "\t" else ""
    file = io.StringIO(newline="")
    file.write(chance.choice(ABOVE).replace("\n", end))
    for line in lines:
        parts = []
        for cell in line:
            part = io.StringIO(newline="")
            csv.writer(part, **options, lineterminator=end).writerow([cell, "x"])
            parts.append(part.getvalue().rpartition(delimiter)[0])
        file.write((delimiter + gap).join(parts) + end)
    return file.getvalue()


def read_back(folder, text, lines):
    path = folder / "t.csv"
    path.write_text(text, newline="", encoding="utf-8")
    expected = [[cell.strip() for cell in line] for line in lines]
    assert lines_of(path)[0] == expected, text


@settings(max_examples=BATCHES)
@given(seeds)
def test_tables_in_any_dialect_are_read_back(tmp_path_factory, seed):
    chance = random.Random(seed)
    for _ in range(10):
        lines = table(chance, TEXTS)
        read_back(tmp_path_factory.getbasetemp(), text_of(lines, chance), lines)


@settings(max_examples=BATCHES)
@given(seeds)
def test_unclosed_marks_swallow_nothing(tmp_path_factory, seed):
    """However many there are, at the beginning or the end of a cell, every row is there and no other cell changes."""
    chance = random.Random(seed)
    for _ in range(10):
        delimiter = chance.choice(",;\t|")
        lines = [[cell.replace(delimiter, "") for cell in line] for line in table(chance, NAMES)]
        marked = chance.choice(['"{}', '"{}', '{}"'])  # of both kinds, two could be one quoted cell of several lines
        for line in chance.sample(lines[1:], chance.randint(1, 4)):
            place = chance.randrange(len(line))
            if re.fullmatch("[^0-9]+", line[place]):
                line[place] = marked.format(line[place])
        read_back(tmp_path_factory.getbasetemp(), "".join(delimiter.join(line) + "\n" for line in lines), lines)


LEVELS = {"csv/203-csv/167.csv": 2, "csv/204-csv/292.csv": 2}
"""Lines of the headers that have more than one."""
NO_HEADER = "csv/203-csv/92.csv"
"""The short first row of this table of numbers reads as a title."""


@pytest.mark.long
def test_tables_of_wikitablequestions(tmp_path):
    """Each of its csv files, whose quotation marks stand behind backslashes, is read as its README says."""
    path, count = tmp_path / "t.csv", 0
    with tarfile.open(shared("data", "wtq", "csv.tar.gz")) as archive:
        for member in filter(tarfile.TarInfo.isfile, archive):
            content = archive.extractfile(member).read()
            path.write_bytes(content)
            source = io.StringIO(content.decode(), newline="")
            lines = [line for line in csv.reader(source, doublequote=False, escapechar="\\") if line]
            assert list(read_delimited(path, ReadOptions()).lines) == lines, member.name
            used = [any(column) for column in zip(*lines, strict=True)]
            table, notes = read_table(path)
            assert len(table.header) == sum(used), member.name
            levels = LEVELS.get(member.name, 1)
            assert len(table.rows) == sum(map(any, lines[levels:])) - (member.name == NO_HEADER), member.name
            assert any("were joined" in note for note in notes) == (levels > 1), member.name
            count += 1
    assert count > 2000


@pytest.mark.parametrize("amount", ["{:.2f}", "{:,.2f}"])
def test_a_title_above_aligned_columns_is_none_of_their_cells(tmp_path, amount):
    rows = [("Ann", "Rome", amount.format(1250.5)), ("Bo Lind", "Oslo", amount.format(400))]
    lines = [
        "Open invoices",
        "",
        *(f"{name:<12}{town:<8}{paid:>10}" for name, town, paid in [("Name", "Town", "Paid"), *rows]),
    ]
    (tmp_path / "t.txt").write_text("\n".join(lines) + "\n")
    table, notes = read_table(tmp_path / "t.txt")
    assert [cell.text for cell in table.header] == ["Name", "Town", "Paid"]
    assert [tuple(cell.text for cell in row) for row in table.rows] == rows
    assert any("Open invoices" in note for note in notes)


def test_gaps_part_columns_where_every_line_has_as_many_words(tmp_path):
    (tmp_path / "t.txt").write_text(
        "name        home town  qty\nFay Wray    Rome         3\nBo Lind     Basel        5\n"
    )
    table, _ = read_table(tmp_path / "t.txt")
    assert [cell.text for cell in table.header] == ["name", "home town", "qty"]
    assert [cell.text for cell in table.rows[0]] == ["Fay Wray", "Rome", "3"]


@pytest.mark.parametrize(
    ("name", "text"), [("t.csv", ",,,\n,,,\n,,,\n"), ("t.tsv", "\t\t\n\t\t\n"), ("t.txt", ",,\n,,\n")]
)
def test_lines_of_nothing_but_delimiters_are_no_table(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match="this file has no table"):
        read_table(tmp_path / name)
