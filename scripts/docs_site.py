"""Builds the docs site, build/docs/site: the pages of the checkout as they are, and pages read off the program.

``make docs`` runs it. ``python -m scripts.docs_site man`` prints docs/robin.1, and likewise ``settings`` and ``exit-codes``.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import typer

from robin_cli import __version__
from robin_cli.cli.app import INTERRUPTED, app
from robin_cli.cli.init import help_in_file
from robin_cli.model import errors
from robin_cli.settings.table import TABLE
from robin_cli.show.gate import EXIT_CODES

ROOT = Path(__file__).parent.parent
PARTS = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "docs", "configs")
"""What the site has of the checkout, at the same places: links between pages hold."""
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
GENERATED = "<!-- Generated: python -m scripts.docs_site {0} > docs/{0}.md -->\n"
PALETTE = [
    {
        "media": f"(prefers-color-scheme: {name})",
        "scheme": scheme,
        "toggle": {"icon": f"lucide/{icon}", "name": other},
    }
    for name, scheme, icon, other in (
        ("light", "default", "sun", "Dark"),
        ("dark", "slate", "moon", "Light"),
    )
]
FEATURES = [
    "content.code.copy",
    "navigation.footer",
    "navigation.instant",
    "navigation.sections",
    "search.highlight",
]
# Zensical's own choice of extensions makes formulas of dollars, and more; these read what GitHub reads.
EXTENSIONS = ["tables", {"toc": {"permalink": True}}, "pymdownx.highlight", "pymdownx.superfences"]

Listed = tuple[str, str, str]
"""A page: its name, its file, and what it is about."""


class Command(NamedTuple):
    """A command as its help shows it; ``flags`` by panel: names, and what each is."""

    name: str
    usage: str
    says: list[str]
    flags: Mapping[str, list[tuple[str, str]]]


def commands() -> Iterator[Command]:
    """Yield every command with all of its flags, in the order of robin --help."""
    group: Any = typer.main.get_command(app)
    context = typer.Context(group, info_name="robin")
    for name in group.list_commands(context):
        _, command, _ = group.resolve_command(context, [name])
        usage, flags = f"robin {name} [OPTIONS]", dict[str, list[tuple[str, str]]]()
        for param in command.get_params(context):
            takes = param.metavar or ""
            names = f"{', '.join([*param.opts, *param.secondary_opts])} {takes}".rstrip()
            if param.param_type_name == "argument":
                names = takes or param.name.upper()
                usage += f" {names}" if param.required else f" [{names}]"
            default = (
                param.default
                if param.show_default and isinstance(param.default, str | int | float)
                else False
            )
            said = (
                f"{param.help or ''} (default: {default})"
                if default not in {False, ""}
                else param.help or ""
            )
            flags.setdefault(getattr(param, "rich_help_panel", None) or "Options", []).append(
                (names, said)
            )
        paragraphs = [*(command.help or "").split("\n\n"), command.epilog or ""]
        yield Command(name, usage, [" ".join(each.split()) for each in paragraphs if each], flags)


def exit_codes() -> dict[int, str]:
    """What each status says that robin leaves with: of errors in the words of ``robin_cli.model.errors``."""
    said = {0: ["done"], 1: ["an unexpected error"]}
    for code, what in re.findall(r"^\W*\w+ +(\d)  (\S.+)$", errors.__doc__ or "", re.MULTILINE):
        said.setdefault(int(code), []).append(what)
    for state, number in EXIT_CODES.items():
        said.setdefault(number, []).append(f"robin gate: {state}")
    return {
        code: "; ".join(words)
        for code, words in sorted({**said, INTERRUPTED: ["interrupted"]}.items())
    }


def _cell(text: str) -> str:
    return re.sub(r"([\\`*_{}\[\]|])", r"\\\1", escape(text, quote=False))


def _table(head: tuple[str, ...], *rows: tuple[str, ...]) -> str:
    lines = [f"| {' | '.join(row)} |" for row in (head, *rows)]
    return "\n".join([lines[0], "|---" * len(head) + "|", *lines[1:]]) + "\n"


def settings() -> str:
    """docs/settings.md: every setting, with its default."""
    rows = list[tuple[str, ...]]()
    for name, each in TABLE.items():
        default = "" if each.default in (None, (), {}) else f"`{json.dumps(each.default)}`"
        must = f" Must be {each.check[1]}." if each.check else ""
        rows.append((f"`{name}`", default, _cell(help_in_file(each) + must)))
    says = (
        "A setting is a flag (`--max-cost`), a variable (`ROBIN_MAX_COST`), or a line of robin.toml (`max_cost = 5`), which "
        "`robin init` writes. The flag comes first, then the variable, then the file. Variables count in `judge`, `resume`, "
        "`plan`, `check`, `try` and `render`."
    )
    table = _table(("setting", "default", "what it is"), *rows)
    return f"{GENERATED.format('settings')}\n# Settings\n\n{says}\n\n{table}"


def exit_code_page() -> str:
    """docs/exit-codes.md: what the status of a command says."""
    rows = [(str(code), _cell(said)) for code, said in exit_codes().items()]
    return f"{GENERATED.format('exit-codes')}\n# Exit codes\n\n{_table(('code', 'means'), *rows)}"


def reference() -> Iterator[tuple[Listed, str]]:
    """Yield a page for each command."""
    for each in commands():
        parts = [
            f"# robin {each.name}\n",
            f"```text\n{each.usage}\n```\n",
            *(f"{_cell(said)}\n" for said in each.says),
        ]
        for panel, flags in each.flags.items():
            rows = [(f"`{names}`", _cell(said)) for names, said in flags]
            parts += [f"## {panel}\n", _table(("flag", "what it is"), *rows)]
        yield (f"robin {each.name}", f"reference/{each.name}.md", each.says[0]), "\n".join(parts)


def contents() -> dict[str, list[Listed]]:
    """The sections of docs/README.md, with the pages that they name."""
    title, sections = "Start", {"Start": [("robin", "README.md", "what it is, and a first run")]}
    for line in (ROOT / "docs" / "README.md").read_text(encoding="utf-8").splitlines():
        if heading := re.fullmatch(r"\*\*(.+?)\??\*\*", line):
            title = heading[1]
        elif row := re.match(r"- \[(.+?)\]\((.+?\.md)\): (.+)$", line):
            about = re.sub(r"\[(.+?)\]\(.+?\)", r"\1", row[3])
            sections.setdefault(title, []).append((row[1], f"docs/{row[2]}", about))
        elif title == "Start":  # the pages that its first lines name
            sections[title] += [
                (name.capitalize(), f"docs/{file}", "")
                for name, file in re.findall(r"\[(.+?)\]\((.+?\.md)\)", line)
            ]
    return sections


def man() -> str:
    """docs/robin.1: the commands, a line each; their flags are in ``robin COMMAND --help``."""

    def entry(term: str, says: str) -> str:
        return f".TP\n.B {term}\n{says}".replace("-", r"\-")

    return "\n".join([
        f'.TH ROBIN 1 "" "robin {__version__}"',
        f".SH NAME\nrobin \\- {PROJECT['description']}",
        ".SH SYNOPSIS\n.B robin\nCOMMAND [OPTIONS]",
        ".SH COMMANDS\nThe flags of each: robin COMMAND \\-\\-help.",
        *(entry(each.usage, each.says[0]) for each in commands()),
        ".SH EXIT STATUS",
        *(entry(str(code), said) for code, said in exit_codes().items()),
        ".SH FILES",
        entry("robin.toml", "The settings of a folder. robin init writes one that explains all."),
        entry("runs/", "The runs, a folder each."),
        ".SH ENVIRONMENT",
        entry("OPENAI_API_KEY", "The judge's key. --api-key-env names another variable."),
        entry("ROBIN_NAME", "A setting by the name of its flag, as ROBIN_MAX_COST for --max-cost."),
    ]) + "\n"  # fmt: skip


def stage(pages: Path) -> None:
    """Lay out in ``pages``, and beside it, what Zensical reads: pages, generated ones, llms.txt, its settings."""
    for name in PARTS:
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, pages / name)
    for page in pages.rglob("*.md"):

        def kept(found: re.Match[str], page: Path = page) -> str:
            """A link, or its words alone where it leads to what the checkout has and the site has not."""
            target = page.parent / found[2]
            elsewhere = (
                ROOT / page.parent.relative_to(pages) / found[2]
            ).exists() and not target.is_file()
            return found[1] if elsewhere else found[0]

        page.write_text(
            re.sub(r"\[([^]]+)\]\(([^)#:]+)\)", kept, page.read_text(encoding="utf-8")),
            encoding="utf-8",
        )
    made = dict(reference())
    (pages / "reference").mkdir()
    for (_, file, _), text in made.items():
        (pages / file).write_text(text, encoding="utf-8")
    sections = contents() | {"Reference": [*made, ("Changes", "CHANGELOG.md", "what is new")]}
    nav = [
        {title: [{name: file} for name, file, _ in listed]} for title, listed in sections.items()
    ]
    theme = {"font": False, "features": FEATURES, "palette": PALETTE}
    project = {
        "site_name": "robin",
        "site_description": PROJECT["description"],
        "docs_dir": pages.name,
        "nav": nav,
    }
    settings = {**project, "theme": theme, "markdown_extensions": EXTENSIONS}
    (pages.parent / "mkdocs.yml").write_text(
        json.dumps(settings), encoding="utf-8"
    )  # which Zensical reads, too
    told = f"# robin\n\n> {PROJECT['description']}.\n"
    for title, listed in sections.items():
        told += f"\n## {title}\n\n"
        told += "".join(
            f"- [{name}]({file}){': ' * bool(about)}{about}\n" for name, file, about in listed
        )
    (pages / "llms.txt").write_text(told, encoding="utf-8")


def build(folder: Path) -> int:
    """Build the site in ``folder``/site, and return the status of Zensical: an error where a link leads nowhere."""
    pages = folder / "pages"
    pages.mkdir(parents=True)
    stage(pages)
    done = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict"], cwd=folder, check=False
    )
    for page in pages.rglob("*.md"):  # what llms.txt names
        shutil.copy(page, folder / "site" / page.relative_to(pages))
    return done.returncode


PRINTED = {"man": man, "settings": settings, "exit-codes": exit_code_page}

if __name__ == "__main__":
    if sys.argv[1:]:
        print(PRINTED[sys.argv[1]](), end="")
    else:
        shutil.rmtree(ROOT / "build" / "docs", ignore_errors=True)
        sys.exit(build(ROOT / "build" / "docs"))
