"""ReClor: questions of law schools' and business schools' admission tests about short texts, with four options each.

Source: Yu et al. 2020, "ReClor: A Reading Comprehension Dataset Requiring Logical Reasoning".
"""

from __future__ import annotations

from mate_cli.data.datasets.option_questions import OptionQuestions


class ReClor(OptionQuestions):
    """The files of ReClor in ReClor's layout: train.json, val.json and test.json."""
