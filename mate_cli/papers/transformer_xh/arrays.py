"""Arrays of texts that are read side by side beside those of tables; row ids number the nodes from 1."""

from mate_cli.tokenization.layout import Array

RELATIONS = Array(("K", "K"), "uint8", name="relations")
"""How node i, which asks, relates to node j, which is asked: 0 not at all, else a place in `KINDS`, from 1; every node
to every other where nobody says."""
NODE_CELLS = Array(("K", 2), "int16", fill=-1, name="node_cells")
"""The body cell that each node is of, (row, column) from 0."""
SENTENCE_IDS = Array(("T",), "int16", name="sentence_ids")
"""Of each token of a node's own text, the number of its sentence from 1; 0 elsewhere."""
