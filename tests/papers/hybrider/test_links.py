"""Links of questions are worked out once and read back as they were."""

from dataclasses import replace

import pytest

from mate_cli.data.datasets.hybridqa.reader import Sample
from mate_cli.data.loading.cache import digest_of
from mate_cli.papers.hybrider import linking
from mate_cli.papers.hybrider.linking import link_examples, link_question

EXAMPLES = Sample().examples("dev")[:4]


def test_links_come_back_from_disk_as_they_were(tmp_path, monkeypatch):
    expected = [link_question(example) for example in EXAMPLES]
    assert any(expected)
    assert [one.nodes for one in link_examples(EXAMPLES, tmp_path)] == expected
    monkeypatch.setattr(linking, "link_questions", lambda chunk: pytest.fail("linked again"))
    again = link_examples(EXAMPLES, tmp_path)
    assert [one.nodes for one in again] == expected
    assert [one.question for one in again] == [example.question for example in EXAMPLES]
    assert link_examples(again, None) == again


def test_other_questions_are_linked_anew(tmp_path):
    link_examples(EXAMPLES, tmp_path)
    assert len(list(tmp_path.iterdir())) == 1
    link_examples(EXAMPLES[:3], tmp_path)
    assert len(list(tmp_path.iterdir())) == 2


def test_every_field_of_an_example_counts():
    """Two encodings of one question must not share a file when they hop from different nodes."""
    (example,) = link_examples(EXAMPLES[:1])
    first, *_, last = example.nodes
    others = [
        replace(example, question="?"),
        replace(example, question_tags="JJS"),
        replace(example, answer=None),
        replace(example, nodes=example.nodes[1:]),
        replace(example, current=first),
        replace(example, current=last),
    ]
    assert first != last
    assert len({digest_of([one], "maker") for one in [example, *others]}) == 1 + len(others)
