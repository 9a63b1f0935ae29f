"""Colours of the page and the figures: apart for colour-blind eyes, and visible on white and on dark sheets."""

from __future__ import annotations

import re

import numpy as np
import pytest

from mate_cli.reports.page import asset

# What is left of linear RGB without one kind of cone (Machado, Oliveira and Fernandes 2009, severity 1).
SIGHTS = {
    "full": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}
# Linear RGB to Oklab (Ottosson 2020), in which distances are about as large as they look.
TO_CONES = np.array([[0.41222, 0.53633, 0.05145], [0.2119, 0.6807, 0.1074], [0.0883, 0.28172, 0.62998]])
TO_OKLAB = np.array([[0.21045, 0.79362, -0.00407], [1.978, -2.42859, 0.45059], [0.0259, 0.78277, -0.80868]])
LIGHT, DARK = asset("compare.css").split("prefers-color-scheme: dark")[:2]


def linear(colours):
    encoded = np.array([[int(one[i : i + 2], 16) / 255 for i in (1, 3, 5)] for one in colours])
    return np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)


def luminance(colours):
    return linear(colours) @ [0.2126, 0.7152, 0.0722]


@pytest.mark.parametrize("css", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("sight", SIGHTS)
def test_any_two_colours_look_different(css, sight):
    seen = np.clip(linear(re.findall(r"--c\d: (#\w{6})", css)) @ np.array(SIGHTS[sight]).T, 0, 1)
    lab = np.cbrt(seen @ TO_CONES.T) @ TO_OKLAB.T
    distances = np.linalg.norm(lab[:, None] - lab[None], axis=-1)[np.triu_indices(len(lab), 1)]
    assert distances.min() > 0.1


@pytest.mark.parametrize("css", [LIGHT, DARK], ids=["light", "dark"])
def test_colours_stand_out_from_the_sheet_and_words_can_be_read(css):
    (sheet,) = luminance(re.findall(r"--sheet: (#\w{6})", css))
    for pattern, least in ((r"--c\d: (#\w{6})", 3.0), (r"--(?:soft|ink|accent|best): (#\w{6})", 4.5)):
        others = luminance(re.findall(pattern, css))
        contrast = (np.maximum(others, sheet) + 0.05) / (np.minimum(others, sheet) + 0.05)
        assert contrast.min() > least
