import torch

from mate_cli.papers.dt_fixup.models.relation_aware import NodePieces


def test_a_word_is_the_mean_of_its_pieces():
    pieces = NodePieces(torch.tensor([0, 1, 3]), torch.tensor([0, 0, 1]), torch.tensor([2, 1, 0]))
    states = torch.tensor([[1.0, 2.0], [3.0, 4.0], [9.0, 9.0], [5.0, 7.0]])
    assert pieces.means(states).tolist() == [[2.0, 3.0], [5.0, 7.0], [0.0, 0.0]]
