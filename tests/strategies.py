"""Random tables and questions for property tests.

They include empty cells, single rows and columns, long cells and unusual characters.
"""

from hypothesis import strategies as st

from mate_cli.tables.example import Answer, TableExample
from mate_cli.tables.table import Cell, Table

PLAIN = "the city of paris was founded in 1837 2012 may 5 2,000 3rd twelve ( ) . , - -- n/a ? [SEP]"
ODD = ["", "x" * 120, "Café", "Łódź", "東京", "naïve", "🙂", "İstanbul", "ـ", "\u0301", "\x00", "a\u200bb"]
WORDS = [*PLAIN.split(), *ODD]
LINKS = ["/wiki/A", "/wiki/B_(c)", "/wiki/Ä"]

words = st.sampled_from(WORDS)
texts = st.lists(words, max_size=5).map(" ".join)
long_texts = st.integers(200, 700).map(lambda n: " ".join(["word 7"] * n))


@st.composite
def tables(draw, max_rows=8, max_columns=5):
    """Sample a table with at least one row and column. Some cells link to passages."""
    columns = draw(st.integers(1, max_columns))
    cell = st.builds(
        Cell, texts | st.sampled_from(["", "7", "12 May 2001"]), st.lists(st.sampled_from(LINKS), max_size=2).map(tuple)
    )
    if draw(st.integers(0, 9)) == 0:
        cell = cell | st.builds(Cell, long_texts)
    header = tuple(Cell(draw(texts)) for _ in range(columns))
    rows = draw(st.lists(st.tuples(*[cell] * columns), min_size=1, max_size=max_rows))
    sentence = st.lists(words, min_size=1, max_size=6).map(lambda found: " ".join(found) + ".")
    passages = {link: " ".join(draw(st.lists(sentence, max_size=4))) for link in draw(st.sets(st.sampled_from(LINKS)))}
    return Table("t", header, tuple(rows), title=draw(texts), section_title=draw(texts), passages=passages)


@st.composite
def examples(draw, **sizes):
    """Sample a question about a random table, with random answer cells."""
    table = draw(tables(**sizes))
    rows, columns = len(table.rows), len(table.header)
    cells = st.tuples(st.integers(0, rows - 1), st.integers(0, columns - 1))
    answer = Answer((draw(texts),), tuple(sorted(draw(st.sets(cells, max_size=3)))))
    return TableExample("q", draw(texts), table, draw(st.none() | st.just(answer)))
