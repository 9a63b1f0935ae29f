"""Count the files of the package that four journeys enter, as far as a function of theirs is called.

python tools/count_journeys.py          # from the shell to the first training step, and so on
python tools/count_journeys.py --names  # with the files

Everything is trained and written in a temporary folder.
"""

import argparse
import contextlib
import io
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import mate_cli
from mate_cli.cli.app import main as mate

PACKAGE = str(Path(mate_cli.__file__).parent)
WORDS = ("hardware.threads=1", "logger=none")
TRAIN = ("train", "experiment=quickstart_cells", "debug=fast", *WORDS)


class FirstStep(Exception):  # noqa: N818 - no error
    """Training has come to its first step."""


@contextlib.contextmanager
def entered(until: str = "") -> Iterator[set[str]]:
    """Collect the files of which functions are called; stop at the first call of a function of this name.

    Raises:
        FirstStep: at that call.
    """
    files: set[str] = set()

    def note(frame: object, event: str, _: object) -> None:
        code = frame.f_code  # type: ignore[attr-defined]
        if event != "call" or not code.co_filename.startswith(PACKAGE) or code.co_name == "<module>":
            return
        files.add(code.co_filename[len(PACKAGE) + 1 :])
        if code.co_name == until:
            raise FirstStep

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield files
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def run(*words: str) -> None:
    """Run a command quietly.

    Raises:
        SystemExit: it fails, with what it says.
    """
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = mate([*words])
    if code:
        sys.exit(said.getvalue())


def reach_loss() -> None:
    """Go from the files of a dataset to a loss."""
    from hydra import compose, initialize_config_dir
    from hydra.utils import instantiate

    from mate_cli.cli.config_dir import config_dir
    from mate_cli.data.loading.collate import collate
    from mate_cli.models.base.table_encoder import TaskContext
    from mate_cli.tokenization.vocabulary import load_tokenizer

    with initialize_config_dir(str(config_dir()), version_base=None):
        cfg = compose("train", ["experiment=quickstart_cells"])
    with entered() as files:
        vocabulary = load_tokenizer("sample")
        serializer = instantiate(cfg.encoding, tokenizer=vocabulary)
        encodings = serializer.encode(instantiate(cfg.data).examples("dev")[:4])
        attention = instantiate(cfg.attention)
        network = instantiate(cfg.model, attention=attention, vocab_size=vocabulary.vocab_size)
        task = instantiate(cfg.task, TaskContext(network, serializer))
        task.loss(collate(encodings, reset_positions=serializer.reset_positions, max_positions=512))
    FOUND["file to loss"] = files


FOUND: dict[str, set[str]] = {}


def count(name: str, *words: str, until: str = "") -> None:
    """Count the files of a command."""
    with contextlib.suppress(FirstStep), entered(until) as files:
        FOUND[name] = files
        run(*words)


def main() -> None:
    """Print the number of files of each journey."""
    parser = argparse.ArgumentParser(description="Count files that journeys enter.")
    parser.add_argument("--names", action="store_true", help="print the files, too")
    names = parser.parse_args().names
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        journeys: list[Callable[[], None]] = [
            lambda: run(*TRAIN),
            lambda: count("shell to first training step", *TRAIN, until="training_step"),
            reach_loss,
        ]
        for journey in journeys:
            journey()
        trained = max(Path("outputs/train/quickstart_cells").glob("*/checkpoints/best.safetensors")).parents[1]
        Path("sales.csv").write_text("region,sold\nnorth,3\nsouth,12\n", encoding="utf-8")
        asked = ("table=sales.csv", "question=which region sold most?", "hardware.threads=1")
        count("own CSV to answer", "predict", f"run={trained}", *asked)
        count("run to page", "compare", str(trained))
    for name, files in FOUND.items():
        print(f"{len(files):5} {name}", *(sorted(files) if names else ()), sep="\n      " if names else "")


if __name__ == "__main__":
    main()
