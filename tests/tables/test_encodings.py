"""Text that is not in UTF-8: read rightly, or refused, or read with a word of it; never wrongly without one."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mate_cli.errors import ConfigError, DataError, MateError
from mate_cli.tables.formats.encoding import SAMPLE, known_encoding, read_text
from mate_cli.tables.questions import QuestionInput, read_questions
from mate_cli.tables.read import open_table
from mate_cli.tables.read_options import ReadOptions

WORDS = {
    "ru": "имя город Москва Казань население Иван Пётр Юлия цена товар ещё всего январь улица Ленина Россия год",
    "ar": "الاسم المدينة القاهرة السكان بغداد دمشق السعر الكمية محمد فاطمة الشهر يناير البلد مصر العراق سوريا",
    "ja": "名前 都市 東京 大阪 北海道 人口 価格 数量 りんご みかん 一月 さくら 日本 カメラ テレビ 県 沖縄 売上 地域",
    "zh": "姓名 城市 北京 上海 人口 价格 数量 苹果 香蕉 一月 中国 地区 销售 总计 广州 深圳 学校 电视 电话 小 学小",
    "tw": "姓名 城市 台北 高雄 人口 價格 數量 蘋果 香蕉 一月 臺灣 地區 銷售 總計 學校 電視 電話",
    "ko": "이름 도시 서울 부산 인구 가격 수량 사과 바나나 일월 한국 지역 판매 합계 학교 전화 대구 인천",
    "fr": "ville été Île-de-France région prénom numéro élève hôtel théâtre première qualité à déjà Noël café",
    "pl": "miasto Łódź Kraków ludność województwo Gdańsk Poznań imię żółty święto źródło",
}
ENCODINGS = {
    "utf-8": "".join(WORDS),
    "utf-16": "",
    "cp1252": "fr",
    "cp1250": "pl",
    "cp1251": "ru",
    "koi8-r": "ru",
    "iso-8859-6": "ar",
    "cp1256": "ar",
    "shift_jis": "ja",
    "euc_jp": "ja",
    "iso2022_jp": "ja",
    "gb18030": "zh",
    "big5": "tw",
    "euc-kr": "ko",
}
"""Encodings with a language that is written in each; none where all are."""


@st.composite
def tables(draw, most_rows):
    """The encoding, and lines of words of its language and numbers."""
    encoding = draw(st.sampled_from(sorted(ENCODINGS)))
    language = ENCODINGS[encoding] if ENCODINGS[encoding] in WORDS else draw(st.sampled_from(sorted(WORDS)))
    words = st.sampled_from(WORDS[language].split())
    line = st.tuples(words, st.integers(0, 9999).map(str), words)
    return encoding, draw(st.lists(line, min_size=2, max_size=most_rows))


def opened(folder, name, content, encoding=None):
    (folder / name).write_bytes(content)
    return open_table(folder / name, ReadOptions(encoding=encoding))


def text_of(name, lines):
    if name.endswith("csv"):
        return "\n".join(map(",".join, lines)) + "\n"
    return "[" + ",\n".join(f'["{a}", "{n}", "{b}"]' for a, n, b in lines) + "]"


def is_read(table, lines):
    return [list(row) for row in table] == [list(line) for line in lines[1:]]


@pytest.mark.parametrize("name", ["t.csv", "t.json"])
@given(case=tables(most_rows=4))
@example(case=("iso-8859-6", [("السعر", "1", "a"), ("مصر", "1", "b")]))
def test_nothing_is_read_wrongly_without_a_word(tmp_path_factory, name, case):
    encoding, lines = case
    content = text_of(name, lines).encode(encoding)
    folder = tmp_path_factory.mktemp("tables")
    try:
        table = opened(folder, name, content)
    except MateError:
        return
    assert is_read(table, lines) or any("text_encoding=" in note for note in table.notes)
    assert is_read(opened(folder, name, content, known_encoding(encoding)), lines)


@given(case=tables(most_rows=60).filter(lambda case: len({line[0] for line in case[1]}) > 5))
def test_what_has_some_words_is_read_rightly(tmp_path_factory, case):
    encoding, lines = case
    assert is_read(opened(tmp_path_factory.mktemp("tables"), "t.csv", text_of("t.csv", lines).encode(encoding)), lines)


SHORT = ["prix,é\n1 €,µ\n", "имя,С\n1,2\n", "šálek,ñ\n1,Ł\n", "Tōkyō,°C\n1,2\n", "Հայ,ab\n1,2\n"]  # noqa: RUF001


@pytest.mark.parametrize("text", SHORT)
def test_utf_8_needs_no_word(tmp_path, text):
    assert opened(tmp_path, "t.csv", text.encode()).notes == []


@pytest.mark.parametrize(
    "words",
    [
        *("Győr Érd Hódmezővásárhely", "święto cena", "corações põe São", "œuvre œnologue été", "cœliaque cœur"),
        *("Tõnu kõik Jõgeva", "Brand® Product™"),
    ],
)
def test_a_letter_stands_where_its_language_has_it(tmp_path, words):
    encoding = "cp1250" if {"ő", "ś"} & {*words} else "cp1252"
    rows = [(word, "1") for word in words.split()]
    content = "name,n\n" + "".join(f"{name},{n}\n" for name, n in rows)
    assert list(opened(tmp_path, "t.csv", content.encode(encoding))) == rows


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("cp1252", "stad;summa\nMalmö;1\u00a0250,50\nJyväskylä;3\u00a0400\n"),
        ("cp1252", "name;paid\nAnn;1\u00a0250,50\nBo;3\u00a0400\u00a0€\n"),
        ("cp1250", "město;cena\nPříbram;1\u00a0250\u00a0Kč\n"),
        ("cp1252", "mail;age\nann@b.uk\u00a0 ;1\n\u00a0\u00a0_ bo;2\nYes.\u00a0 No;3\n"),
        ("cp850", "señal;n\nmás;3\nestá;4\n"),
        ("cp1252", "comarca;n\nVallès;3\naixò;4\n"),
        ("cp1251", "ГОРОД;ИНН\nМОСКВА;7\n"),  # noqa: RUF001
        ("cp1252", "share;n\n5 ‰;3\n"),
        ("cp1252", "size;n\n3\u00d74;12÷3\n"),
        ("cp1257", "Pilsēta;n\nRēzekne;1\nJūrmala;2\nLiepāja;3\n"),
        ("iso8859-7", "Πόλη;Ποσό\nΑθήνα;52.910,25 €\nΧανιά;4.543,67 €\n"),  # noqa: RUF001
    ],
)
def test_no_break_spaces_and_what_programs_of_windows_write(tmp_path, encoding, text):
    (tmp_path / "t.csv").write_bytes(text.encode(encoding))
    assert read_text(tmp_path / "t.csv").encoding == encoding


@pytest.mark.parametrize(
    ("encoding", "words"),
    [
        ("koi8-r", "жителей всего"),  # not capitals of Windows-1251
        ("cp1251", "мешканців її та"),
        ("cp1252", "ÉNERGIE FRANÇAISE RÉPONSE ORLÉANS"),
        ("cp1250", "ŠIBENIK OPĆINA ŠKOLA ŽENA"),
        ("cp1257", "ąžuolas įmonė šimtas Šiauliai"),
        ("cp874", "ประชากร ราคา ถนน โรงเรียน"),
    ],
)
def test_words_are_read_in_the_alphabet_that_they_fit(tmp_path, encoding, words):
    rows = [(word, "1") for word in words.split()]
    content = "name,n\n" + "".join(f"{name},{n}\n" for name, n in rows)
    assert list(opened(tmp_path, "t.csv", content.encode(encoding))) == rows


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("name", ["t.csv", "t.json"])
def test_utf_16_says_so_itself(tmp_path, name, encoding):
    lines = [("ville", "n", "m"), ("Étienne", "1", "x"), ("Nîmes", "2", "y")]
    table = opened(tmp_path, name, ("\ufeff" + text_of(name, lines)).encode(encoding))
    assert is_read(table, lines)
    assert "it was read as utf-16" in table.notes[0]


def test_a_letter_far_behind_the_beginning_counts(tmp_path):
    (tmp_path / "t.csv").write_bytes(f"{'x' * SAMPLE}\nété\n".encode("cp1252"))
    assert read_text(tmp_path / "t.csv").encoding == "cp1252"


def test_damage_makes_no_other_encoding_of_utf_8(tmp_path):
    table = opened(tmp_path, "t.csv", "имя,город\nИван,Москва\n".encode() + b"\xff,x\n")  # noqa: RUF001
    assert list(table) == [("Иван", "Москва"), ("\ufffd", "x")]
    assert table.notes == ["1 place in the file cannot be read as utf-8: shown as \ufffd."]


def test_an_encoding_that_is_typed_holds_or_the_file_is_refused(tmp_path):
    table = opened(tmp_path, "t.csv", "имя,a\nмы,1\n".encode("cp866"), "cp866")
    assert (table.header[0], table.notes) == ("имя", [])
    assert opened(tmp_path, "t.csv", "é,a\n1,2\n".encode("utf-16"), "cp866").header[0] == "é"  # its mark says more
    with pytest.raises(DataError, match=r"it is not in UTF-8\. Save it as UTF-8, or write text_encoding="):
        opened(tmp_path, "t.csv", "имя,a\nмы,1\n".encode("cp866"), "utf-8")
    for name in ("utf-9", "idna", "unicode_escape", "zlib", "", "\0"):
        with pytest.raises(ConfigError, match="unknown encoding"):
            known_encoding(name)


@pytest.mark.parametrize("name", ["q.txt", "q.csv", "q.json"])
def test_of_questions_no_encoding_is_guessed(tmp_path, name):
    text = {"q.txt": "où?\n", "q.csv": "question\noù?\n", "q.json": '[{"question": "où?"}]'}[name]
    (tmp_path / name).write_bytes(text.encode("cp1252"))
    with pytest.raises(DataError, match="it is not in UTF-8"):
        read_questions(str(tmp_path / name))
    assert read_questions(str(tmp_path / name), "cp1252") == [QuestionInput("où?")]
