"""Groups runs into configurations. Runs of the same configuration differ only by seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mate_cli.reports.compare.configuration import (
    FIELDS,
    Configuration,
    Options,
    fold_of,
    join_question_sets,
    name_question_sets,
    pool_question_sets,
    repeats,
    split_by_settings,
)
from mate_cli.reports.compare.names import name_configurations
from mate_cli.reports.runs.load import LoadedRun
from mate_cli.runs.identity import SEED_REPEAT_KEYS


def group_runs(runs: Sequence[LoadedRun], options: Options | None = None) -> list[Configuration]:
    """Group runs into configurations, whose runs have equal settings except the seed.

    Args:
        runs: runs to group.
        options: options of the comparison, None for the defaults.

    Returns:
        The configurations with their names, in order of appearance.
    """
    options = options or Options()
    keys = tuple(options.by) or FIELDS
    if "dataset" not in keys and len({run.setting("dataset") for run in runs}) > 1:
        keys = (*keys, "dataset")
    families: dict[tuple[str, ...], list[LoadedRun]] = {}
    for run in runs:
        identity = tuple(run.setting(key) for key in keys)
        families.setdefault(identity, []).append(run)
    groups: list[Configuration] = []
    for identity, members in families.items():
        fields = dict(zip(keys, identity, strict=True))
        parts = [({}, members)] if options.by else split_by_settings(members, (*SEED_REPEAT_KEYS, *options.ignore))
        for distinguishing, part in parts:
            for repeated in split_by_questions(part):
                repeat_runs = repeats(repeated, bool(options.status), by_seed=not options.by)
                groups.append(Configuration(fields, tuple(repeated), repeat_runs, distinguishing, options=options))
    return name_configurations(assign_ranking_blocks(groups))


def split_by_questions(runs: Sequence[LoadedRun]) -> list[list[LoadedRun]]:
    """Split runs of one configuration into groups with comparable scores.

    Runs of a group were scored on the same questions.

    Each cross-validation fold is split separately. Runs without scores join the first group.
    """
    parts: dict[int, list[LoadedRun]] = {}
    for fold in dict.fromkeys(map(fold_of, runs)):
        fold_runs = [run for run in runs if fold_of(run) == fold]
        sets = join_question_sets([run.questions if run.part("metrics") else {} for run in fold_runs])
        part_ids = list(dict.fromkeys(map(id, sets)))
        for run, joint in zip(fold_runs, sets, strict=True):
            parts.setdefault(part_ids.index(id(joint)), []).append(run)
    return list(parts.values())


def assign_ranking_blocks(groups: Sequence[Configuration]) -> list[Configuration]:
    """Assign each configuration to the block of configurations with comparable scores.

    A block contains the configurations of a dataset that were scored on the same questions, so their scores are
    comparable.
    """
    blocks: dict[int, Configuration] = {}
    for dataset in dict.fromkeys(group.dataset for group in groups):
        dataset_groups = [group for group in groups if group.dataset == dataset]
        scored_runs = [[run for run in group.runs if run.part("metrics")] for group in dataset_groups]
        fold_sets = [join_question_sets([run.questions for run in runs]) for runs in scored_runs]
        sets = join_question_sets([pool_question_sets(folds) for folds in fold_sets])
        for group, joint, block in zip(dataset_groups, sets, name_question_sets(dataset, sets), strict=True):
            blocks[id(group)] = replace(group, questions=joint, block=block)
    return [blocks[id(group)] for group in groups]
