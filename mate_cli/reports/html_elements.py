"""Builds HTML out of nested calls; whatever is not already markup is escaped and rid of control characters."""

from __future__ import annotations

import json
from collections.abc import Iterable
from html import escape
from importlib import resources

from mate_cli.terminal.streams import printable

VOID = frozenset({"meta", "br", "hr", "input", "link"})


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


Child = object


def element(tag: str, *children: Child, **attributes: object) -> Markup:
    """Returns one element.

    Args:
        tag: the element's name.
        *children: markup, text (escaped), or iterables of these; None and "" are skipped.
        **attributes: `class_` becomes class, `data_value` data-value; None and False are left out, True is bare.
    """
    shown = "".join(attribute(name, value) for name, value in attributes.items())
    inner = "".join(render(child) for child in children)
    return Markup(f"<{tag}{shown}>" if tag in VOID else f"<{tag}{shown}>{inner}</{tag}>")


def attribute(name: str, value: object) -> str:
    """Returns one attribute with a leading space, empty when there is none."""
    if value is None or value is False:
        return ""
    key = name.rstrip("_").replace("_", "-")
    return f" {key}" if value is True else f' {key}="{escape(printable(str(value)), quote=True)}"'


def render(child: Child) -> str:
    """Returns a child as HTML, escaped unless it is markup."""
    if child is None:
        return ""
    if isinstance(child, Markup):
        return child
    if isinstance(child, Iterable) and not isinstance(child, str):
        return "".join(render(one) for one in child)
    return escape(printable(str(child)), quote=False)


def asset(name: str) -> Markup:
    """Reads a style sheet or script that is part of the package."""
    return Markup(resources.files("mate_cli.reports").joinpath("assets", name).read_text(encoding="utf-8"))


def html_page(title: str, style: str, *body: Child, scripts: str = "", refresh_seconds: float | None = None) -> str:
    """Returns a page that needs no other file and may load none.

    Args:
        title: in the browser's frame.
        style: the style sheet among the assets.
        *body: what the page shows.
        scripts: that run in it; without any, none may.
        refresh_seconds: after how long it loads itself again; None: never.
    """
    policy = "default-src 'none'; style-src 'unsafe-inline'" + "; script-src 'unsafe-inline'; img-src data:" * bool(
        scripts
    )
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", http_equiv="refresh", content=f"{refresh_seconds:.0f}") if refresh_seconds else None,
        element("title", f"{title} · MATE"),
        element("style", asset(style)),
    )
    whole = element("body", body, element("script", Markup(scripts)) if scripts else None)
    return f'<!DOCTYPE html>\n<html lang="en">{head}{whole}</html>\n'


def options(choices: Iterable[tuple[str, str]]) -> list[Markup]:
    """Returns the entries of a menu: (value, what is shown)."""
    return [element("option", shown, value=value) for value, shown in choices]


def data_element(name: str, content: object) -> Markup:
    """Returns plain values for the page's scripts, as JSON in which no character can end the element."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return Markup(f'<script type="application/json" id="{escape(name, quote=True)}">{text}</script>')
