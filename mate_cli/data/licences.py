"""Under which terms the datasets are shared, for whoever passes on what was learnt from them."""

from __future__ import annotations

from typing import NamedTuple


class Terms(NamedTuple):
    """What is known of a dataset's licence; it is the authors' word that counts.

    Args:
        title: the dataset.
        licence: its short name in lower case, as the Hugging Face hub writes it; "other" where it has none there.
        said: the licence in words.
        home: where the dataset comes from, where that is elsewhere.
        hub: its name on the Hugging Face hub, where it has one.
    """

    title: str
    licence: str
    said: str
    home: str | None = None
    hub: str | None = None


TERMS: dict[str, Terms] = {
    "hybridqa": Terms(
        "HybridQA",
        "mit",
        "MIT; tables and passages are Wikipedia's, CC BY-SA",
        "https://github.com/wenhuchen/HybridQA",
        "wenhu/hybrid_qa",
    ),
    "hybridqa_synthetic": Terms(
        "questions made from the tables and passages of HybridQA",
        "cc-by-sa-4.0",
        "made by mate-cli from Wikipedia's text, CC BY-SA, as HybridQA (MIT) has collected it",
        "https://github.com/wenhuchen/HybridQA",
    ),
    "sample": Terms("the sample that comes with mate-cli", "apache-2.0", "Apache 2.0; all of it is made up"),
    "sqa": Terms(
        "SQA",
        "ms-pl",
        "MS-PL, as its card on the Hugging Face hub says; tables are those of WikiTableQuestions, CC BY-SA 4.0",
        "https://www.microsoft.com/en-us/download/details.aspx?id=54253",
        "microsoft/msr_sqa",
    ),
    "wtq": Terms(
        "WikiTableQuestions",
        "cc-by-sa-4.0",
        "CC BY-SA 4.0",
        "https://github.com/ppasupat/WikiTableQuestions",
        "stanfordnlp/wikitablequestions",
    ),
    "tabfact": Terms(
        "TabFact",
        "cc-by-4.0",
        "CC BY 4.0; the repository of the authors says MIT",
        "https://github.com/wenhuchen/Table-Fact-Checking",
        "wenhu/tab_fact",
    ),
    "wikisql": Terms(
        "WikiSQL", "bsd-3-clause", "BSD 3-Clause", "https://github.com/salesforce/WikiSQL", "Salesforce/wikisql"
    ),
}
"""By the name of the dataset in `conf/data`."""
