"""robin init and rubrics: what a user starts from."""

from __future__ import annotations

import json
import os
import textwrap
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from robin_cli.cli.options import Invocation, command, with_known
from robin_cli.cli.render import print_exactly
from robin_cli.model.errors import InputError

if TYPE_CHECKING:
    from robin_cli.settings.setting import Setting

_EXPLAINED = "openai"
_WIDTH = 128


@command("init --like vllm", "like force")
def init(call: Invocation) -> None:
    """Write robin.toml, a commented file of all settings.

    robin judge, plan, check and render read it from the folder where you start them; a flag wins over the file.
    """
    from robin_cli.data.local import whole_file
    from robin_cli.settings.reading import DEFAULT_FILE, ready_configs

    like = call.flags.like
    names = [name for name in ready_configs() if name != "demo"]  # its paths hold only where it is
    if like not in names:
        raise InputError(f'--like "{like}": ready configs are {", ".join(names)}')
    if os.path.lexists(DEFAULT_FILE) and not call.flags.force:
        raise InputError(f"{DEFAULT_FILE}: is there already; --force writes over it")
    try:
        with whole_file(Path(DEFAULT_FILE), mode=0o666) as file:
            file.write(starting_file(like).encode())
    except OSError as error:
        raise InputError(f"{DEFAULT_FILE}: could not be written ({error.strerror})") from error
    typer.echo(
        f"wrote {DEFAULT_FILE}; next: edit data and model in it, then "
        "robin judge --budget 1000 --attribute helpfulness. Another host, a key variable, a price or an output in it "
        f"counts only with --config {DEFAULT_FILE}",
        err=True,
    )


def starting_file(like: str) -> str:
    """Return a shipped config; openai's is followed by every other setting, explained."""
    from robin_cli.data.local import shipped
    from robin_cli.settings.table import TABLE

    text = (shipped("configs") / f"{like}.toml").read_text(encoding="utf-8")
    if like != _EXPLAINED:
        return text
    lines, panel, in_config = [text.rstrip()], "", tomllib.loads(text)
    for setting in (setting for name, setting in TABLE.items() if name not in in_config):
        if setting.panel != panel:
            panel = setting.panel
            lines += ["", f"# {panel}"]
        value = f"{setting.name} = {json.dumps(setting.default)}"
        if setting.example:
            value = f"# {setting.name} = {setting.example}"
        words = help_in_file(setting)
        beside = f"{value:<34} # {words}"
        above = [f"# {line}" for line in textwrap.wrap(words, _WIDTH - 2)]
        lines += [beside] if len(beside) <= _WIDTH else [*above, value]
    return "\n".join(lines) + "\n"


def help_in_file(setting: Setting) -> str:
    """Return the help of a setting in a TOML file."""
    is_unwritten = setting.example and setting.default_said
    default = f"(default: {setting.default_said})" if is_unwritten else ""
    words = " ".join(filter(None, [setting.help, setting.note, default]))
    return with_known(words.replace("{again}", "as a list"), setting.name)


@command("rubrics helpfulness > mine.toml", "name")
def rubrics(call: Invocation) -> None:
    """List the ready rubrics and templates, or print one.

    A copy is used with robin judge --rubric FILE (--template FILE).
    """
    from robin_cli.ask.prompts import prompt_source
    from robin_cli.ask.rubrics import known_attributes, rubric_of
    from robin_cli.ask.templates import known_templates

    if call.flags.name is not None:
        print_exactly(prompt_source(call.flags.name))
        return
    for attribute in known_attributes():
        rubric = rubric_of(attribute)
        print(f"{attribute:<20}{rubric.scale!s:<8}{rubric.levels[-1][1]}")
    for template in known_templates():
        print(f"{template:<20}template")
