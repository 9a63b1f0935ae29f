"""Names of tables and columns as SQLite takes them."""

from __future__ import annotations

import re
import string

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
_KEYWORDS = """
abort action add after all alter always analyze and as asc attach autoincrement before begin between by cascade
case cast check collate column commit conflict constraint create cross current current_date current_time
current_timestamp database default deferrable deferred delete desc detach distinct do drop each else end escape
except exclude exclusive exists explain fail filter first following for foreign from full generated glob group
groups having if ignore immediate in index indexed initially inner insert instead intersect into is isnull join
key last left like limit match materialized natural no not nothing notnull null nulls of offset on or order others
outer over partition plan pragma preceding primary query raise range recursive references regexp reindex release
rename replace restrict returning right rollback row rows savepoint select set table temp temporary then ties to
transaction trigger unbounded union unique update using vacuum values view virtual when where window with within
without
"""
"""All keywords. Source: sqlite.org, "SQLite Keywords"."""
_OF_OTHER_DIALECTS = """
any connect_by_root cube current_user describe fetch grant ilike interval lateral lock partitioned_by qualify revoke
rlike rollup tablesample uncache xor
"""
"""Names to SQLite, but not to sqlglot, unless they are quoted."""
_RESERVED = frozenset(_KEYWORDS.split())
_QUOTED = _RESERVED.union(_OF_OTHER_DIALECTS.split(), ("true", "false"))


def fold(name: str) -> str:
    """A name as SQLite compares names: the letters A to Z in lower case, and no others."""
    return name.translate(_LOWER)


def is_keyword(word: str) -> bool:
    """Tell whether SQLite has a word as a keyword."""
    return fold(word) in _RESERVED


def quoted_identifier(name: str) -> str:
    """A name of a table or column, in quotes where SQL needs them."""
    plain = _PLAIN.fullmatch(name) and fold(name) not in _QUOTED
    return name if plain else '"{}"'.format(name.replace('"', '""'))
