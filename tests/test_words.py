"""Prose and names keep to the terms of the field: violations per package do not rise."""

import ast
import io
import re
import tokenize
from collections import Counter
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "mate_cli"
GLOSSARY = re.compile(
    r"\b(?:refus(?:e[sd]?|ing)|what(?:ever)?|who(?:ever)?|people|(?:no|some|any|every)(?:body|thing)|things?|kinds?|places?|"
    r"beside|but for|as far as|stands?|(?:left|leave) out|worked out|at work|go(?:es)? on|trainings|learnt|alike|"
    r"likewise|anew|mend(?:ed)?|hand(?:s|ed)? o(?:n|ver)|ours|theirs|others|said|told|twice|kept|right|chance|"
    r"hardly|in words|[as][so] (?:many|much)|by itself|there (?:is|are) no|(?:is|are) there|pieces?|holds?|begins?)\b",
    re.IGNORECASE,
)
"""Words for which the field has a term, such as "raise", "token", "contain" or "index"."""
VAGUE = re.compile(
    "(?:_|above|added|again|asked|away|before|behind|below|beside|best|both|built|changed?|chosen|computed|counted|cut|done|"
    "drawn|each|every|facts|fits?|found|given|gone|has|held|here|how|inner|inside|its?|joined|kept|known|last|left|listed|"
    "loaded|made|many|marks|matched|measured|missing|moved|most|named|near|needed|new|none|nothing|now|of|old|once|ones?|only|"
    "opened|others?|ours|own|passed|pieces?|places?|plain|put|quoted|ranked|read|real|recorded|released|remedy|rest|right|"
    "said|same|says?|scored|seen|selected|several|shared|short|shown|side|some|spelled|stated|still|stored|taken|tells?|that|"
    "theirs|them|there|these|they|things?|this|those|told|together|tried|trained|trusted|turned|typed|used|usual|wanted|ways?|"
    "what|where|which|who|whole|whose|with|without|work|written|wrong)+",
    re.IGNORECASE,
)
"""Names that consist of pronouns, participles and adverbs, and so do not say what the object is."""
LIMITS: dict[str, tuple[int, int]] = {
    "__init__": (2, 2),
    "analysis": (1, 0),
    "arguments": (0, 1),
    "attention": (7, 3),
    "benchmark": (2, 8),
    "cli": (37, 41),
    "data": (74, 53),
    "errors": (0, 4),
    "files": (17, 13),
    "lit_modules": (14, 12),
    "metrics": (24, 9),
    "models": (29, 31),
    "papers": (72, 35),
    "pipelines": (42, 62),
    "reports": (91, 109),
    "runs": (33, 35),
    "tables": (34, 9),
    "terminal": (4, 2),
    "tokenization": (33, 11),
}
"""Glossary violations and vague names of each package. Lower them when they fall."""


def count_violations(path: Path) -> Counter[str]:
    """Count the glossary violations in the strings and comments of a module, and the vague names that it binds."""
    source = path.read_text(encoding="utf-8")
    nodes = list(ast.walk(ast.parse(source)))
    prose = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    prose += [token.string for token in tokens if token.type == tokenize.COMMENT]
    names = [node.arg for node in nodes if isinstance(node, ast.arg)]
    names += [node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    names += [node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    hits = sum(len(GLOSSARY.findall(re.sub(r"`[^`]*`", "", text))) for text in prose)
    return Counter(prose=hits, names=sum(name != "_" and VAGUE.fullmatch(name) is not None for name in names))


def test_glossary_violations_and_vague_names_do_not_rise():
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        counts = found.setdefault(path.relative_to(PACKAGE).parts[0].removesuffix(".py"), Counter())
        counts.update(count_violations(path))
    pairs = {package: (counts["prose"], counts["names"]) for package, counts in found.items()}
    assert {name: pair for name, pair in pairs.items() if any(map(int.__gt__, pair, LIMITS.get(name, (0, 0))))} == {}
