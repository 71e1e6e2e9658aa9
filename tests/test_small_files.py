"""Rubrics, templates and settings under names that lead to something else than a small file."""

from __future__ import annotations

import os
import threading
from itertools import pairwise
from pathlib import Path

import pytest

from robin_cli.files import local as files
from robin_cli.model.errors import InputError
from robin_cli.prompts.rubric_files import read_rubric
from robin_cli.prompts.rubrics import load_prompts
from robin_cli.settings.reading import find_config, read_toml
from tests.conftest import refuses

TONE = 'attribute = "tone"\nscale = [1, 3]\n[levels]\n1 = "Rude."\n3 = "Kind."\n'


def complaint(path: Path) -> str:
    with pytest.raises(InputError) as refused:
        read_rubric(path)
    said = str(refused.value)
    assert len(said) < 600
    return said.replace(f"--rubric {path}: ", "")


def test_reads_no_device_no_folder_and_no_giant(tmp_path: Path) -> None:
    for name in ("zero.toml", "zero.jinja"):
        (tmp_path / name).symlink_to("/dev/zero")
    (tmp_path / "folder.toml").mkdir()
    with (tmp_path / "giant.yaml").open("wb") as file:
        file.truncate(2**31)

    assert complaint(Path("/dev/zero")).startswith("a device or a socket, not a file; name a text file")
    assert complaint(tmp_path / "zero.toml").startswith("a device or a socket, not a file")
    assert complaint(tmp_path / "folder.toml").startswith("a folder, not a file; name a text file")
    assert complaint(tmp_path / "giant.yaml").startswith("longer than 1 MiB, too long for such a file; check")
    with pytest.raises(InputError, match=r"--template \S+zero.jinja: a device or a socket, not a file"):
        load_prompts(["helpfulness"], template=str(tmp_path / "zero.jinja"))
    refuses(InputError, r"zero.toml: a device or a socket, not a file", read_toml, tmp_path / "zero.toml")


def test_waits_only_so_long_for_a_pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "WAIT_S", 0.05)
    os.mkfifo(tmp_path / "tone.toml")

    assert complaint(tmp_path / "tone.toml").startswith("a pipe that has not ended after 0.05 s; let its writer finish")


@pytest.mark.parametrize("name", ["tone.toml", "no-suffix"])
def test_reads_a_rubric_out_of_a_pipe(tmp_path: Path, name: str) -> None:
    pipe = tmp_path / name
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=(TONE,))
    writer.start()  # waits until robin opens the other end

    assert read_rubric(pipe).attribute == "tone"
    writer.join()


def test_reads_yaml_settings_and_templates_out_of_pipes(tmp_path: Path) -> None:
    texts = {
        "rubric": "attribute: tone\nscale: [1, 3]\nlevels:\n  1: 'Rude = bad.'\n  3: Kind.\n",
        "template": "{% block user %}{{ response }}{% endblock %}",
        "config": "budget = 7\n",
    }
    writers = []
    for name, text in texts.items():
        os.mkfifo(tmp_path / name)
        writers.append(threading.Thread(target=(tmp_path / name).write_text, args=(text,)))
        writers[-1].start()

    assert load_prompts((), [str(tmp_path / "rubric")], str(tmp_path / "template")).attributes == ("tone",)
    assert read_toml(find_config(str(tmp_path / "config")))["budget"] == 7
    for writer in writers:
        writer.join()


def test_refuses_yaml_that_expands_or_nests_without_end(tmp_path: Path) -> None:
    names = "abcdefghijklmnop"
    laughs = [f"{after}: &{after} [{', '.join([f'*{name}'] * 9)}]" for name, after in pairwise(names)]
    explodes = "\n".join(["a: &a [lol]", *laughs, "examples: [{rating: *p}]"])
    (tmp_path / "aliases.yaml").write_text(explodes, encoding="utf-8")
    (tmp_path / "deep.yaml").write_text("[" * 50_000, encoding="utf-8")
    (tmp_path / "date.yaml").write_text("scale: 2001-99-99", encoding="utf-8")

    assert complaint(tmp_path / "aliases.yaml").startswith(
        'cannot be read: an alias (*): write the text out again in "<unicode string>", line 2'
    )
    assert complaint(tmp_path / "deep.yaml").startswith(
        "cannot be read: it is nested too deeply; a rubric has two levels"
    )
    assert complaint(tmp_path / "date.yaml").startswith("cannot be read: month must be in 1..12")
