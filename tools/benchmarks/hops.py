"""How many layers that hop it takes to learn what is so many steps away: drawn tables with one clue, in another cell.

The cells of a row see each other through its first cell alone. Every cell reads the question, which names a column and
what stands in another one; asked for is the cell of that row in that column. Where one of the two is the first cell,
the clue is one step away from the answer, else two.

    python tools/benchmarks/hops.py hops=[gat,dot] hop_layers=[1,2]

Source: Zhao et al., "Transformer-XH: Multi-Evidence Reasoning with Extra Hop Attention", ICLR 2020.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import torch
from command import run
from pydantic import Field, PositiveFloat, PositiveInt
from rich.table import Table
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import AdamW
from torch.optim.lr_scheduler import LinearLR

from mate_cli.attention.backends.sdpa import Sdpa
from mate_cli.benchmark.timing import threads
from mate_cli.data.loading.collate import collate
from mate_cli.lit_modules.candidate_choice import first_tokens
from mate_cli.models.base.sizes import EncoderSize
from mate_cli.papers.transformer_xh.models.transformer_xh import TransformerXh
from mate_cli.papers.transformer_xh.relations import RELATIONS
from mate_cli.terminal.console import Console
from mate_cli.tokenization.layout import TableBatch, TableEncoding, TokenArrays

CLS, COLUMN_WORDS = 1, 2
"""Words: the first token, one of each column, then one of each value."""
CELL_WORDS = 6
"""Of a cell: the first token, the column that is asked for, the clue's and its value, its own column and value."""
STEPS = {1: "one_step", 2: "two_steps"}


@dataclass(kw_only=True)
class HopsBenchmark:
    """Train a small network on drawn tables for each number of layers that hop, and ask it about others."""

    hop_layers: Sequence[Annotated[int, Field(ge=0)]] = (0, 1, 2, 3)
    hops: Sequence[Literal["gat", "dot"]] = ("gat",)
    rows: Annotated[int, Field(ge=2)] = 3
    columns: Annotated[int, Field(ge=3)] = 3
    values: Annotated[int, Field(ge=2)] = 4
    layers: PositiveInt = 4
    width: PositiveInt = 64
    heads: PositiveInt = 4
    inner: PositiveInt = 128
    steps: PositiveInt = 600
    batch: PositiveInt = 16
    lr: PositiveFloat = 2e-3
    questions: PositiveInt = 300
    threads: PositiveInt | None = None
    seed: Annotated[int, Field(ge=0)] = 1

    def __iter__(self) -> Iterator[dict[str, float]]:
        """Yield the accuracy of each number of layers; print them all at the end."""
        found: dict[tuple[str, int], Mapping[str, float]] = {}
        with threads(self.threads):
            for hop in self.hops:
                for count in self.hop_layers:
                    right = found[hop, count] = self.learn(hop, count)
                    yield {f"hops/{hop}/{count}/{steps}/accuracy": share for steps, share in right.items()}
        Console().print(self._table(found))

    def learn(self, hop: Literal["gat", "dot"], hop_layers: int) -> dict[str, float]:
        """Return the share of right answers after training, of questions whose clue is one step away, and two."""
        torch.manual_seed(self.seed)
        random = np.random.default_rng(self.seed)
        size = EncoderSize(self.width, self.layers, self.heads, self.inner)
        network = TransformerXh(
            size,
            attention=Sdpa(),
            hop=hop,
            hop_layers=hop_layers,
            combine="identity",
            vocab_size=COLUMN_WORDS + self.columns + self.values,
            hidden_dropout=0.0,
            attention_dropout=0.0,
        )
        score = nn.Linear(self.width, 1)
        optimizer = AdamW([*network.parameters(), *score.parameters()], lr=self.lr)
        schedule = LinearLR(optimizer, 1.0, 0.0, self.steps)
        for _ in range(self.steps):
            batch, answers, _ = self.drawn(random, self.batch)
            optimizer.zero_grad()
            loss = cross_entropy(self._scores(network, score, batch), answers)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
        batch, answers, away = self.drawn(random, self.questions)
        with torch.no_grad():
            right = (self._scores(network.eval(), score, batch).argmax(-1) == answers).double()
        return {name: float(right[away == steps].mean()) for steps, name in STEPS.items() if steps in away}

    def drawn(self, random: np.random.Generator, count: int) -> tuple[TableBatch, Tensor, Tensor]:
        """Tables, the cells that are asked for and how many steps their clues are away, both [count]."""
        encodings, answers, away = zip(*(self._question(random) for _ in range(count)), strict=True)
        batch = collate(encodings, reset_positions=True, max_positions=CELL_WORDS)
        return batch, torch.tensor(answers), torch.tensor(away)

    def _question(self, random: np.random.Generator) -> tuple[TableEncoding, int, int]:
        clue, asked = random.choice(self.columns, 2, replace=False)
        values = np.stack([random.choice(self.values, self.rows, replace=False) for _ in range(self.columns)], 1)
        row = random.integers(self.rows)
        cells = self.rows * self.columns
        value_words = COLUMN_WORDS + self.columns
        text = np.empty((cells, CELL_WORDS), np.int64)
        text[:, :4] = CLS, COLUMN_WORDS + asked, COLUMN_WORDS + clue, value_words + values[row, clue]
        text[:, 4] = COLUMN_WORDS + np.tile(np.arange(self.columns), self.rows)
        text[:, 5] = value_words + values.flatten()
        tokens = TokenArrays(text.size)
        tokens.fill(
            input_ids=text.flatten(),
            segment_ids=np.tile([0, 0, 0, 0, 1, 1], cells),
            row_ids=np.repeat(np.arange(cells) + 1, CELL_WORDS),
        )
        first = np.arange(cells) % self.columns == 0
        of_row = np.arange(cells) // self.columns
        relations = (of_row[:, None] == of_row) & (first[:, None] ^ first)
        encoding = tokens.encoding("drawn", more={RELATIONS: relations.astype(np.uint8)})
        return encoding, int(row * self.columns + asked), 1 if 0 in (clue, asked) else 2

    def _scores(self, network: TransformerXh, score: nn.Linear, batch: TableBatch) -> Tensor:
        """Of every cell, [B, rows * columns]."""
        output = network(batch)
        hubs = output.states[first_tokens(output.batch)]
        made: Tensor = score(hubs)
        return made.view(-1, self.rows * self.columns)

    def _table(self, found: Mapping[tuple[str, int], Mapping[str, float]]) -> Table:
        table = Table(title="Right, by how far away the clue is", title_justify="left")
        for name in ("hop", "layers that hop", "one step", "two steps"):
            table.add_column(name, justify="right" if table.columns else "left")
        for (hop, count), right in found.items():
            shown = (f"{100 * right[name]:.1f}" if name in right else "-" for name in STEPS.values())
            table.add_row(hop, str(count), *shown)
        return table


if __name__ == "__main__":
    run(HopsBenchmark)
