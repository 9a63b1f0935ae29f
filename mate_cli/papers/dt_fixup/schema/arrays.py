"""Arrays of a question and a schema beside those of tables; row ids number the nodes from 1."""

from mate_cli.tokenization.layout import Array

WORD, COLUMN, TABLE = 1, 2, 3
"""What a node is: a word of the question, a column, a table; 0 where there is no node."""

NODE_RELATIONS = Array(("K", "K"), "uint8", name="relations")
"""How node i, which asks, relates to node j, which is asked: a place in `RELATIONS`, from 0; all nodes relate."""
NODE_KINDS = Array(("K",), "int8", name="node_kinds")
"""What each node is. The pieces of a node lie side by side, but those of tables in front of those of columns, whose
nodes come first."""
NODE_TABLES = Array(("K",), "int16", fill=-1, name="node_tables")
"""Of each column's node, the place of its table's node, from 0; -1 of other nodes."""
ACTIONS = Array(("A", 5), "int16", fill=-1, name="actions")
"""How the query is made, see `action_rows`."""
