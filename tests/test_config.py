"""Settings out of flags, variables and files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from robin_cli.cli.init import starting_file
from robin_cli.model.errors import InputError
from robin_cli.settings.addresses import checked_urls
from robin_cli.settings.reading import (
    load_settings,
    read_toml,
    ready_configs,
)
from robin_cli.settings.resolve import resolve
from robin_cli.settings.table import TABLE, Settings
from tests.conftest import judging, refuses, robin, write_pairs


def write(folder: Path, text: str) -> str:
    (folder / "c.toml").write_text(text, encoding="utf-8")
    return str(folder / "c.toml")


def test_takes_a_flag_before_the_file_and_the_file_before_the_default(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        'temperature = 0.5\nmax_tokens = 9\nattribute = ["helpfulness", "verbosity"]\nconcurrency = 4',
    )
    config = load_settings({"temperature": 0.7, "seed": None}, file)
    assert (config.temperature, config.max_tokens, config.delta, config.workers) == (
        0.7,
        9,
        0.007,
        4,
    )
    assert config.attribute == ("helpfulness", "verbosity")


def test_counts_paths_in_a_file_from_its_own_folder(tmp_path: Path) -> None:
    config = load_settings({}, write(tmp_path, 'data = "pairs.jsonl"\nrun = "/x/r"\noutput = "-"'))
    assert (config.data, config.run, config.output) == (
        (str(tmp_path / "pairs.jsonl"),),
        "/x/r",
        "-",
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("temprature = 1", 'unknown setting "temprature"; did you mean "temperature"'),
        ('budget = "many"', "budget must be a whole number"),
        ("budget = true", "budget must be a whole number"),
        ("budget = 0", "at least 1"),
        ("delta = nan", "above 0 and at most 1"),
        ("model = 4", "model must be text in quotes"),
        ("model = [", "not TOML"),
        ('base_url = "ftp://x"', "must begin with http"),
        ('api_key_env = "sk-secret-123"', "the NAME of an environment variable"),
        (
            'api_key_env = ["sk-secret-123", 5]',
            "api_key_env must be text in quotes, or a list of such",
        ),
    ],
)
def test_says_which_setting_is_wrong_and_where(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)) as refused:
        load_settings({}, write(tmp_path, text))
    assert "sk-secret" not in str(refused.value)


@pytest.mark.parametrize("url", ["https://user:hunter2@host/v1", "https://host/v1?key=hunter2"])
def test_takes_no_secret_in_an_address_and_does_not_repeat_it(url: str) -> None:
    with pytest.raises(InputError, match="api-key-env") as refused:
        load_settings({"base_url": [url]}, None)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("text", ['{"a": 1', "[1]", "3"])
def test_takes_an_object_for_the_extra_body(text: str) -> None:
    refuses(InputError, "--extra-body", load_settings, {"extra_body": text}, None)
    for key in ('{"api_key": "k"}', '{"metadata": {"Authorization": "Bearer k"}}'):
        refuses(InputError, "a run keeps this object", load_settings, {"extra_body": key}, None)
    assert load_settings({"extra_body": '{"top_k": 4}'}, None).extra_body == {"top_k": 4}


def test_maps_columns() -> None:
    assert load_settings({"columns": "prompt=q, response=a"}, None).columns == {
        "prompt": "q",
        "response": "a",
    }
    refuses(InputError, "ours=theirs", load_settings, {"columns": "prompt"}, None)


def test_ships_configs_that_load() -> None:
    assert ready_configs() == ["demo", "llama-cpp", "ollama", "openai", "vllm"]
    for name in ready_configs():
        assert load_settings({}, name).model


def test_explains_every_setting_with_its_default_in_the_file_that_init_writes(
    tmp_path: Path,
) -> None:
    text = starting_file("openai")
    written = load_settings({}, write(tmp_path, text))
    for name, setting in TABLE.items():
        assert len(re.findall(rf"^(?:# )?{name} = ", text, re.MULTILINE)) == 1, name
        if name not in {"data", "base_url", "model"}:  # which say where to start
            assert getattr(written, name) == setting.default, name


def test_reads_every_setting_that_the_file_only_mentions(tmp_path: Path) -> None:
    text = starting_file("openai")
    (tmp_path / "all.toml").write_text(
        re.sub(r"^# (\w+ = )", r"\1", text, flags=re.MULTILINE), encoding="utf-8"
    )
    assert read_toml(tmp_path / "all.toml").keys() == TABLE.keys()


def test_takes_the_key_from_the_environment_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTHER_KEY", " sk-other ")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    asked = Settings(model=("m",), api_key_env=("OTHER_KEY",))
    assert [judge.key for judge in resolve(asked).judges] == ["sk-other"]
    assert "sk-other" not in repr(resolve(asked))
    local = Settings(model=("m",), base_url=("http://localhost:1/v1",))
    assert [judge.key for judge in resolve(local).judges] == ["none"]
    for value, words in (
        ("sk-a\nsk-b", "blanks"),
        ('"sk-a"', "in quotes"),
        ("'sk-a'", "in quotes"),
    ):
        monkeypatch.setenv("OTHER_KEY", value)
        with pytest.raises(InputError, match=f"OTHER_KEY: holds.*{words}") as refused:
            resolve(asked)
        assert "sk-a" not in str(refused.value)


def test_understands_the_whole_address_of_chat_completions_and_says_how_to_write_azures() -> None:
    forms = ["http://h/v1/", "http://h/v1/chat/completions", "http://h/v1/chat/completions/"]
    assert checked_urls(forms, "--base-url") == ("http://h/v1",)
    azure = (
        "https://n.openai.azure.com/openai/deployments/d/chat/completions?api-version=2024-10-21"
    )
    right = "--base-url: .* https://NAME.openai.azure.com/openai/v1"
    refuses(InputError, right, checked_urls, [azure], "--base-url")


def test_names_the_variable_whose_value_is_wrong(tmp_path: Path) -> None:
    for name, value, said in (
        ("ROBIN_MAX_RETRIES", "5000", "ROBIN_MAX_RETRIES 5000: must be 0 to 1,000"),
        ("ROBIN_LIMIT", "3k", 'ROBIN_LIMIT "3k": is no whole number; write 3000 or 3,000'),
        ("ROBIN_QUIET", "maybe", 'ROBIN_QUIET "maybe": is neither true nor false'),
        ("ROBIN_MODE", "loose", "ROBIN_MODE loose: must be practice or theory"),
        (
            "OPENAI_BASE_URL",
            "http://u:p@x/v1",
            "OPENAI_BASE_URL: must hold no user, password or query",
        ),
    ):
        done = robin(
            *("judge", "p.jsonl", "-b", "1", "-a", "helpfulness", "--model", "m"),
            cwd=tmp_path,
            **{name: value},
            exits=2,
        )
        assert said in done.stderr
    told = robin("judge", "-b", "1", cwd=tmp_path, ROBIN_BUDGET="3k", exits=2).stderr
    assert "ROBIN_BUDGET" not in told  # the flag counts


def test_says_which_variable_may_be_a_mistake(tmp_path: Path) -> None:
    said = robin(
        "judge", "p.jsonl", cwd=tmp_path, ROBIN_BUDGT="5", ROBIN_HOME="/srv", exits=2
    ).stderr
    assert "note: ROBIN_BUDGT is set, but is not a setting of robin; ROBIN_BUDGET is one" in said
    assert "ROBIN_HOME" not in said


@pytest.mark.parametrize("value", ["my rubric.toml", "'my rubric.toml' 'your rubric.toml'"])
def test_reads_a_list_in_a_variable_as_a_shell_reads_it(tmp_path: Path, value: str) -> None:
    rubric = robin("rubrics", "helpfulness", cwd=tmp_path).stdout
    (tmp_path / "my rubric.toml").write_text(rubric, encoding="utf-8")
    (tmp_path / "your rubric.toml").write_text(
        rubric.replace("helpfulness", "help"), encoding="utf-8"
    )
    write_pairs(tmp_path / "p.jsonl", 2)
    command = ("plan", "p.jsonl", "-b", "9", "--json")
    done = robin(
        *command,
        cwd=tmp_path,
        ROBIN_RUBRIC=value,
        ROBIN_MODEL="'my model'",
        OPENAI_API_KEY="k",
        exits=0,
    )
    done = robin(*command, cwd=tmp_path, ROBIN_RUBRIC="'my")
    assert (done.returncode, "ROBIN_RUBRIC: cannot be read" in " ".join(done.stderr.split())) == (
        2,
        True,
    )


def test_takes_back_by_a_flag_what_a_file_switches_on(tmp_path: Path, replay_url: str) -> None:
    (tmp_path / "robin.toml").write_text(
        "with_text = true\nwide = true\nquiet = true\n", encoding="utf-8"
    )
    command = judging(replay_url, str(write_pairs(tmp_path / "p.jsonl", 2)), 4)
    on = robin(*command, cwd=tmp_path)
    off = robin(*command, "--no-with-text", "--no-wide", "--no-quiet", cwd=tmp_path)
    assert (on.stdout.splitlines()[0].count("_score"), "prompt" in on.stdout, on.stderr) == (
        1,
        True,
        "",
    )
    assert (
        off.stdout.splitlines()[0].count("_score"),
        "prompt" in off.stdout,
        "run: runs" in off.stderr,
    ) == (0, False, True)


def test_checks_endpoints_alone(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(
        'judge = "length"\nattribute = "helpfulness"\n', encoding="utf-8"
    )
    done = robin("check", "--config", "own.toml", cwd=tmp_path, exits=2)
    assert 'own.toml: judge = "length": robin check asks endpoints' in done.stderr


def test_says_before_it_asks_that_openai_wants_a_key(tmp_path: Path) -> None:
    asked = ("judge", "p.jsonl", "-b", "1", "-a", "helpfulness", "--model", "m")
    done = robin(*asked, "--base-url", "https://api.openai.com/v1", cwd=tmp_path, exits=2)
    assert "set a key in OPENAI_API_KEY" in done.stderr
    done = robin(*asked, "--api-key-env", "MY_KEY", cwd=tmp_path, exits=2)
    assert "--api-key-env MY_KEY: that variable is not set" in done.stderr
    assert "no data: name a file" in robin("judge", cwd=tmp_path, exits=2).stderr
