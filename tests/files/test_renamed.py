"""Runs and exports from before classes moved: what a configuration named then is there under its name of today."""

import importlib

import pytest

from mate_cli.files.renamed import FORMER_MODULES, rename_targets


@pytest.mark.parametrize("former", sorted(FORMER_MODULES))
def test_a_module_of_today_stands_for_each_former_one(former):
    with pytest.raises(ImportError):
        importlib.import_module(f"mate_cli.papers.{former}")
    assert importlib.import_module(f"mate_cli.papers.{FORMER_MODULES[former]}")


def test_names_are_replaced_at_any_depth_and_others_stay():
    former = {
        "data": {"_target_": "mate_cli.papers.dt_fixup.datasets.spider.reader.Spider"},
        "stages": [{"task": {"_target_": "mate_cli.papers.hybrider.node_ranking.NodeRanking"}}],
        "init": {
            "_target_": "mine.hybrider.node_ranking.NodeRanking",
            "path": "mate_cli.papers.hybrider.node_ranking.X",
        },
    }
    renamed = rename_targets(former)
    assert renamed["data"]["_target_"] == "mate_cli.papers.dt_fixup.datasets.spider_questions.Spider"
    assert renamed["stages"][0]["task"]["_target_"] == "mate_cli.papers.hybrider.tasks.NodeRanking"
    assert renamed["init"] == former["init"]


def test_options_that_are_gone_are_left_out_where_they_were_not_used():
    target = "mate_cli.papers.transformer_xh.datasets.document_readers.HotpotQA"
    assert rename_targets({"_target_": target, "fold": None}) == {"_target_": target}
    assert rename_targets({"_target_": target, "fold": 2})["fold"] == 2
    others = {"_target_": "mate_cli.data.datasets.wtq.reader.WikiTableQuestions", "fold": None}
    assert rename_targets(others) == others
