"""Run pip install with the package indexes that answer: `python tools/install.py -c constraints.txt -e .`.

pip asks each index for each package, so an extra index that does not answer would add its timeout a hundred times.
"""

from __future__ import annotations

import ast
import os
import platform
import re
import shutil
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

CONNECT_SECONDS = 5.0
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
INSTALL = [
    *PIP,
    "install",
    "--quiet",
    "--no-compile",
]  # Python compiles on first use, which saves a quarter of the time
TORCH_INDEX = os.environ.get("TORCH_INDEX", "https://download.pytorch.org/whl/cpu")
"""Index of PyTorch builds without CUDA. Behind a company mirror, the address of its copy."""


def is_reachable(index: str) -> bool:
    """Return whether a server or folder answers, with whatever status, within `CONNECT_SECONDS`."""
    if index.startswith("file:"):
        return True
    try:
        urllib.request.urlopen(index, timeout=CONNECT_SECONDS).close()
    except urllib.error.HTTPError:
        return True
    except urllib.error.URLError as error:
        return isinstance(error.reason, ssl.SSLError)  # pip may know the certificate
    except (OSError, ValueError):
        return False
    return True


def find_indexes(config: str, key: str) -> list[str]:
    """Return the indexes of a key in the output of `pip config list`. The environment wins over files."""
    found = dict(re.findall(rf"^([\w:]+)\.{key}=(.*)$", config, re.MULTILINE))
    values = [found[section] for section in (":env:", "install", "site", "user", "global") if section in found]
    return ast.literal_eval(values[0]).split() if values else []


def set_reachable_indexes() -> None:
    """Let pip skip the extra indexes that do not answer."""
    config = subprocess.run([*PIP, "config", "list"], capture_output=True, text=True, check=True).stdout
    indexes = find_indexes(config, "extra-index-url")
    with ThreadPoolExecutor() as pool:
        reachable = [index for index, answers in zip(indexes, pool.map(is_reachable, indexes), strict=True) if answers]
    for index in set(indexes) - set(reachable):
        print(f"{index} does not answer and is skipped.")
    if reachable != indexes:
        # pip ignores an empty variable, so the main index is given twice if no extra index is left.
        main = find_indexes(config, "index-url") or ["https://pypi.org/simple"]
        os.environ["PIP_EXTRA_INDEX_URL"] = " ".join(reachable or main)


def install_cpu_torch() -> None:
    """Install the build without CUDA on Linux without a GPU, where the package index has the build with CUDA."""
    if platform.system() != "Linux" or shutil.which("nvidia-smi") or find_spec("torch"):
        return
    (torch,) = re.findall(r"^torch==\S+", Path("constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)
    if not is_reachable(TORCH_INDEX):
        print(f"{TORCH_INDEX} does not answer: PyTorch comes from the package index. Set TORCH_INDEX to use a mirror.")
    elif subprocess.run([*INSTALL, "--no-deps", "--index-url", TORCH_INDEX, torch]).returncode:
        print(f"{TORCH_INDEX} has no {torch}: PyTorch comes from the package index.")


if __name__ == "__main__":
    set_reachable_indexes()
    install_cpu_torch()
    words = sys.argv[1:]
    if sys.version_info < (3, 11) and "-c" in words:
        print("constraints.txt has versions for Python 3.11 and newer: here pip chooses others.")
        del words[(place := words.index("-c")) : place + 2]
    sys.exit(subprocess.run([*INSTALL, *words]).returncode)
