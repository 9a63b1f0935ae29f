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

_WTQ = "7d455a5a707b96341ef72aff9428749d443d8aa9"
_WTQ_BLOBS = {
    "data/pristine-seen-tables.tsv": "e65fb37b23e4e3b4627274184608b29ca9be4706",
    "data/pristine-unseen-tables.tsv": "1b90daf7f29d6b5b78ea5075e50cda364212a797",
    "data/random-split-1-dev.tsv": "eb0dea3793ee2e4f63c1ea5727a8d8ab37c986f2",
    "data/random-split-1-train.tsv": "d05e3a6cc8507e8cb4e2797975930202d5f2cac2",
    "data/random-split-2-dev.tsv": "b93e8d02d9983eec58195d440377c6dc875ca623",
    "data/random-split-2-train.tsv": "303b9143afe3ed886001334b7bf9206c16a08b0d",
    "data/random-split-3-dev.tsv": "24757262a2f288f8e721f41ac1df19ddd21c8949",
    "data/random-split-3-train.tsv": "6cdf7451318278806ebbbbbd53c440d93cdb6c94",
    "data/random-split-4-dev.tsv": "f5888f366854ba509e03f86f93ebaeba31e357f7",
    "data/random-split-4-train.tsv": "229318fb19529999ebdb7a365c345fe7a6c5c701",
    "data/random-split-5-dev.tsv": "37549a92e4c64deb4385c817210d5f65117a16ce",
    "data/random-split-5-train.tsv": "0d7460acfd2c3f1c8ce753f8a58ff039c9b6d13b",
    "data/training.tsv": "71506f6161efcbd45ab959d5f8204abb42b4e36d",
    "misc/table-metadata.tsv": "de38d45797e748c1eb8d737585d37ddd25c5b3d3",
    "tagged/data/pristine-seen-tables.tagged": "b219a855bd12ec7b0fbcda7e8fe57e2fa7c24e0b",
    "tagged/data/pristine-unseen-tables.tagged": "981478696c69de43a374977c4ae5e4906076276b",
    "tagged/data/training.tagged": "221411f2db20dad2d0e7da5219c793a1590d4c24",
}
WTQ: tuple[RemoteFile, ...] = (
    *(
        RemoteFile(f"https://raw.githubusercontent.com/ppasupat/WikiTableQuestions/{_WTQ}/{name}", name, f"git:{blob}")
        for name, blob in _WTQ_BLOBS.items()
    ),
    RemoteFile(
        "https://github.com/ppasupat/WikiTableQuestions/releases/download/v1.0.2/WikiTableQuestions-1.0.2-compact.zip",
        "WikiTableQuestions-1.0.2-compact.zip",
    ),
)
"""Questions, their canonical answers and the titles of tables, checked by the blob ids which the commit names; the
tables come from the archive of release 1.0.2, trusted on first use."""

SQA_RELEASE: tuple[RemoteFile, ...] = (
    RemoteFile(
        "https://download.microsoft.com/download/1/D/C/1DC270D2-1B53-4A61-A2E3-88AB3E4E6E1F/SQA%20Release%201.0.zip",
        "SQA-Release-1.0.zip",
    ),
)
"""Everything in one archive at Microsoft's download site, trusted on first use."""
