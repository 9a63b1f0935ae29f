"""LogiQA: questions of Chinese civil servants' examinations about short texts, translated, with four options each.

Source: Liu et al. 2020, "LogiQA: A Challenge Dataset for Machine Reading Comprehension with Logical Reasoning".
"""

from __future__ import annotations

from mate_cli.data.datasets.option_questions import OptionQuestions


class LogiQa(OptionQuestions):
    """The files of LogiQA in ReClor's layout: train.json, val.json and test.json."""
