"""Where the public releases of the datasets are, each at a fixed commit."""

from __future__ import annotations

from mate_cli.data.download import RemoteFile

_TABFACT = "2ab782ba42b5808076ac91fec846473aa5315a79"
_TABFACT_BLOBS = {
    "tokenized_data/train_examples.json": "ec8df38f7ba5ff474333dd6a74d71b53cb548ac4",
    "tokenized_data/val_examples.json": "b89259f510f6ee00e250d5c03ea238a57fa5c2b2",
    "tokenized_data/test_examples.json": "be6fa43961e4c35ff23178e7b76e442c7baa1014",
    "data/simple_ids.json": "963220554549e18c8f80cfb8456085f8e4a6c1f1",
    "data/complex_ids.json": "35681e3e8644901ddd56542d60f31dc9c3ccd587",
    "data/simple_test_id.json": "523126f975e137ea350f2dd1b88d1dbe2bfb9ade",
    "data/complex_test_id.json": "f8fa63155d3b32fc756fba47b83efb63c1adbc18",
    "data/small_test_id.json": "054349c31ee2998d733d759b390a720b5ab9188b",
}
TABFACT: tuple[RemoteFile, ...] = (
    *(
        RemoteFile(
            f"https://raw.githubusercontent.com/wenhuchen/Table-Fact-Checking/{_TABFACT}/{name}", name, f"git:{blob}"
        )
        for name, blob in _TABFACT_BLOBS.items()
    ),
    RemoteFile(
        f"https://github.com/wenhuchen/Table-Fact-Checking/archive/{_TABFACT}.tar.gz", "Table-Fact-Checking.tar.gz"
    ),
)
"""Statements and lists of tables, checked by the blob ids which the commit names; the 16,573 tables come as an
archive of the whole repository, trusted on first use."""

WIKISQL: tuple[RemoteFile, ...] = (
    RemoteFile(
        "https://raw.githubusercontent.com/salesforce/WikiSQL/7857cfd8aefcc9823245c370f9e39ecd55745ea6/data.tar.bz2",
        "data.tar.bz2",
        "git:941de4cb2ad5fa7aeb2e37d314468636ce070af7",
    ),
)
"""Questions, SQL and tables in one archive, checked by the blob id which the commit names."""
