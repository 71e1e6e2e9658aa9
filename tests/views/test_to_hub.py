"""Results pushed to a hub: the real library, and a stand-in for the hub that keeps what it is sent and gives it back."""

from __future__ import annotations

import base64
import io
import json
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.conftest import free_port, robin, robin_afresh
from tests.many_starts import Starts, starts
from tests.views.test_preferences import BAD, BEST, pair, rated

TOKEN = "hf_plantedPlantedPlanted"
_TYPE = "application/json"

Reply = tuple[int, bytes | dict[str, Any] | list[Any], dict[str, str]]


class Hub(ThreadingHTTPServer):
    """One data set, by the requests that the library makes to write and to read it; files come by Git LFS, and not by Xet."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Asked)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.forget()

    def forget(self) -> None:
        """Hold nothing, and refuse nothing."""
        self.visibility: str | None = None
        self.refuses: dict[str, int] = {}
        self.files, self.stored = {".gitattributes": b"\n"}, dict[str, bytes]()
        self.tokens: set[str] = set()
        self.version = 0

    def table(self, config: str) -> pa.Table:
        """What a configuration holds."""
        return pq.read_table(
            io.BytesIO(self.files[f"{config}/train-00000-of-00001.parquet"]), use_threads=False
        )

    def reply(self, asked: BaseHTTPRequestHandler, path: str, body: bytes) -> Reply:
        """The status, the body and the headers."""
        self.tokens.add(asked.headers.get("Authorization", ""))
        refused = next((status for part, status in self.refuses.items() if part in path), None)
        if refused:
            return refused, {"error": f"no, Bearer {TOKEN}"}, {}
        if path == "/api/repos/create":
            self.visibility = json.loads(body)["visibility"]
            return 200, {"url": f"{self.url}/datasets/me/scores"}, {}
        if path == "/api/validate-yaml":
            return 200, {"errors": [], "warnings": []}, {}
        if path.startswith("/lfs/"):
            self.stored[path[5:]] = body
            return 200, {}, {}
        if self.visibility is None or "/me/scores" not in path:
            return 404, {}, {"X-Error-Code": "RepoNotFound"}
        if "/resolve/" in path:
            return self._file(asked, path.partition("/resolve/")[2].partition("/")[2])
        if "/tree/" in path:
            return self._folder(path.partition("/tree/")[2].partition("/")[2])
        return self._written(path, body)

    def _written(self, path: str, body: bytes) -> Reply:
        if path.endswith("/preupload/main"):
            names = [each["path"] for each in json.loads(body)["files"]]
            modes = ["lfs" if name.endswith(".parquet") else "regular" for name in names]
            told = [
                {"path": name, "uploadMode": mode, "shouldIgnore": False}
                for name, mode in zip(names, modes, strict=True)
            ]
            return 200, {"files": told}, {}
        if path.endswith("/info/lfs/objects/batch"):
            wanted = json.loads(body)["objects"]
            told = [
                {**each, "actions": {"upload": {"href": f"{self.url}/lfs/{each['oid']}"}}}
                for each in wanted
            ]
            return (
                200,
                {"transfer": "basic", "objects": told},
                {"Content-Type": "application/vnd.git-lfs+json"},
            )
        if path.endswith("/commit/main"):
            for line in map(json.loads, body.splitlines()):
                value = line["value"]
                if line["key"] == "lfsFile":
                    self.files[value["path"]] = self.stored[value["oid"]]
                elif line["key"] == "file":
                    self.files[value["path"]] = base64.b64decode(value["content"])
            self.version += 1
            commit = f"{self.url}/datasets/me/scores/commit/{self._sha}"
            return 200, {"success": True, "commitUrl": commit, "commitOid": self._sha}, {}
        private = self.visibility == "private"
        return (
            200,
            {
                "id": "me/scores",
                "sha": self._sha,
                "private": private,
                "siblings": [],
                "tags": [],
                "downloads": 0,
            },
            {},
        )

    @property
    def _sha(self) -> str:
        return f"{self.version:040d}"

    def _folder(self, folder: str) -> Reply:
        prefix = f"{folder}/" if folder else ""
        names = sorted(
            {
                name[len(prefix) :].partition("/")[0]
                for name in self.files
                if name.startswith(prefix)
            }
        )
        if not names:
            return 404, {}, {"X-Error-Code": "EntryNotFound"}
        paths = [prefix + name for name in names]
        return 200, [
            {"type": "file", "path": path, "size": len(self.files[path]), "oid": "a" * 40}
            if path in self.files
            else {"type": "directory", "path": path, "oid": "b" * 40}
            for path in paths
        ], {}  # fmt: skip

    def _file(self, asked: BaseHTTPRequestHandler, name: str) -> Reply:
        if name not in self.files:
            return 404, {}, {"X-Error-Code": "EntryNotFound"}
        data = self.files[name]
        headers = {
            "ETag": f'"{name}{self.version}"',
            "X-Repo-Commit": self._sha,
            "Accept-Ranges": "bytes",
        }
        begin, _, end = asked.headers.get("Range", "").removeprefix("bytes=").partition("-")
        if not begin or asked.command == "HEAD":
            return 200, data, headers
        last = int(end) if end else len(data) - 1
        return (
            206,
            data[int(begin) : last + 1],
            {**headers, "Content-Range": f"bytes {begin}-{last}/{len(data)}"},
        )


class _Asked(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Hub

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        status, told, headers = self.server.reply(self, self.path.partition("?")[0], body)
        data = told if isinstance(told, bytes) else json.dumps(told).encode()
        self.send_response(status)
        for name, value in {
            "Content-Type": _TYPE,
            **headers,
            "Content-Length": str(len(data)),
        }.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    do_HEAD = do_POST = do_PUT = do_GET  # noqa: N815  # the server's names for it

    def log_message(self, *args: Any) -> None:
        pass


class Pusher:
    """Runs robin with the hub that is there; the library is imported once, which takes seconds."""

    def __init__(self, hub: Hub, starts: Starts) -> None:
        self.hub = hub
        self._starts = starts

    def push(self, *args: str | Path, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
        return self._starts.robin(
            *args, cwd=cwd, **{"HF_HOME": str(cwd / "home"), "HF_TOKEN": TOKEN, **env}
        )


@pytest.fixture(scope="module")
def pusher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pusher]:
    folder = tmp_path_factory.mktemp("hub")
    with Hub() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        with starts(folder, "datasets", "huggingface_hub", env=env_of(server.url, folder)) as each:
            yield Pusher(server, each)
        server.shutdown()
        thread.join()


@pytest.fixture
def hub(pusher: Pusher) -> Hub:
    """The hub, with nothing there."""
    pusher.hub.forget()
    return pusher.hub


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two prompts, each with two responses that differ."""
    pairs = [
        pair(f"{prompt}{n}", f"prompt {prompt}", human={"helpfulness": float(n)})
        for prompt in "ab"
        for n in range(2)
    ]
    return rated(tmp_path_factory.mktemp("run"), pairs, [BEST, BAD] * 2).path


def env_of(url: str, folder: Path) -> dict[str, str]:
    return {
        "HF_ENDPOINT": url,
        "HF_HOME": str(folder / "home"),
        "HF_TOKEN": TOKEN,
        "HF_HUB_DISABLE_XET": "1",
    }


def test_pushes_what_export_writes_and_reads_it_back(
    tmp_path: Path, run: Path, pusher: Pusher, hub: Hub
) -> None:
    for config, *flags in (
        ["scores", "--with-text"],
        ["judgments"],
        ["preferences", "--messages"],
    ):
        more = ("--what", config, *flags)
        done = pusher.push("export", run, *more, "--to-hub", "me/scores", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert f"hf://me/scores?config={config} (private)" in done.stderr
        assert (done.stdout, "%" in done.stderr) == ("", False)  # no bars
        assert robin("export", run, *more, "-o", "same.parquet", cwd=tmp_path).returncode == 0
        expected = pq.read_table(tmp_path / "same.parquet", use_threads=False)
        found = hub.table(config)
        assert found.column_names == expected.column_names
        assert found.to_pylist() == expected.to_pylist()
    assert hub.visibility == "private"

    first = ("--pair", str(hub.table("scores")["pair_id"][0]), "-a", "helpfulness")
    shown = pusher.push("render", "hf://me/scores?config=scores", *first, cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert "prompt a" in shown.stdout


def test_puts_new_results_in_the_place_of_old_ones_and_keeps_the_token_to_itself(
    tmp_path: Path, run: Path, pusher: Pusher, hub: Hub
) -> None:
    for flags in (["--wide"], []):
        done = pusher.push("export", run, *flags, "--to-hub", "me/scores", "--public", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "pushed 4 rows: hf://me/scores?config=scores (public)" in done.stderr
        assert TOKEN not in done.stdout + done.stderr
    assert "score" in hub.table("scores").column_names
    assert (hub.visibility, hub.version) == ("public", 2)

    assert f"Bearer {TOKEN}" in hub.tokens
    kept = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert TOKEN.encode() not in b"".join([*kept, *hub.files.values()])


@pytest.mark.parametrize(
    ("visibility", "flags", "said"),
    [
        (
            "public",
            [],
            "--to-hub me/scores: is public there, so that all could read the results; say --public",
        ),
        ("private", ["--public"], "--to-hub me/scores: is private there; leave --public out"),
    ],
)
def test_pushes_nothing_to_a_data_set_that_others_see_unless_told_to(
    tmp_path: Path,
    run: Path,
    pusher: Pusher,
    hub: Hub,
    visibility: str,
    flags: list[str],
    said: str,
) -> None:
    hub.visibility = visibility
    done = pusher.push("export", run, "--to-hub", "me/scores", *flags, cwd=tmp_path)
    assert (done.returncode, hub.version) == (2, 0)
    assert said in done.stderr


@pytest.mark.parametrize(
    ("refuses", "said"),
    [
        (
            {"/api/datasets": 401},
            "the token is refused. hf auth login, or set HF_TOKEN, with a token that may write",
        ),
        ({"/repos/create": 403}, "this token may not write there. Check the owner"),
        ({"/commit/main": 403}, "this token may not write there. Check the owner"),
        (
            {"/repos/create": 418},
            "the hub answers with HTTP 418. Try again later; the run is as it was",
        ),
    ],
)
def test_says_why_a_hub_refuses(
    tmp_path: Path, run: Path, pusher: Pusher, hub: Hub, refuses: dict[str, int], said: str
) -> None:
    hub.refuses = refuses
    done = pusher.push("export", run, "--to-hub", "me/scores", cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
    assert f"robin: --to-hub me/scores: {said}" in done.stderr
    assert TOKEN not in done.stderr


def test_says_that_no_hub_is_there(tmp_path: Path, run: Path, pusher: Pusher) -> None:
    asking = ("export", run, "--to-hub", "me/scores")
    nobody = env_of(f"http://127.0.0.1:{free_port()}", tmp_path)
    for done, status, said in (
        (
            robin(*asking, cwd=tmp_path, **nobody),
            1,
            "the hub cannot be reached (ConnectError). Check the network, or",
        ),
        (
            robin(*asking, cwd=tmp_path, **nobody, HF_HUB_OFFLINE="1"),
            1,
            "the hub may not be asked here: HF_HUB_OFFLINE",
        ),
        (
            pusher.push(*asking, cwd=tmp_path, HF_TOKEN=""),
            2,
            "there is no token to write with. hf auth login, or set",
        ),
    ):
        assert done.returncode == status
        assert f"--to-hub me/scores: {said}" in done.stderr


@pytest.mark.parametrize(
    "name", ["scores", "me/scores/more", "buckets/x", f"https://{TOKEN}@h/x", "", "me/", "../x"]
)
def test_refuses_what_names_no_data_set(tmp_path: Path, run: Path, name: str) -> None:
    done = robin("export", run, "--to-hub", name, cwd=tmp_path)
    assert done.returncode == 2
    assert "--to-hub: names no data set. Write OWNER/NAME, as me/scores." in done.stderr
    assert TOKEN not in done.stderr


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["-o", "x.csv"], "--to-hub: writes no file, so that -o says nothing there"),
        (["--format", "csv"], "--to-hub: writes no file, so that --format says nothing there"),
        (["--excel"], "--to-hub: writes no file, so that --excel says nothing there"),
        (["--raw"], "--to-hub: writes no file, so that --raw says nothing there"),
    ],
)
def test_takes_no_flags_of_files_with_a_hub(
    tmp_path: Path, run: Path, flags: list[str], said: str
) -> None:
    done = robin("export", run, "--to-hub", "me/scores", *flags, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr


def test_takes_public_for_a_hub_alone(tmp_path: Path, run: Path) -> None:
    assert "--public: is for --to-hub" in robin("export", run, "--public", cwd=tmp_path).stderr


def test_names_the_extra_where_the_library_that_writes_is_missing(
    tmp_path: Path, run: Path
) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "datasets.py").write_text(
        "raise ModuleNotFoundError('no', name='datasets')\n", encoding="utf-8"
    )
    done = robin_afresh(
        "export", run, "--to-hub", "me/scores", cwd=tmp_path, PYTHONPATH=str(tmp_path / "site")
    )
    assert done.returncode == 2
    assert "not installed. Install it: pip install '.[datasets]' in" in done.stderr
