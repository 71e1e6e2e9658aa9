"""Files at addresses: over HTTP and S3 from servers on this machine, with the real libraries."""

from __future__ import annotations

import gzip
import importlib
import json
import re
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from robin_cli.data import remote
from robin_cli.data.pairs import load_pairs
from robin_cli.model.errors import InputError
from tests.conftest import judging, robin, write_pairs
from tests.data.writing import HELPSTEER, as_csv, as_lines, as_parquet
from tests.judges.wire import completion, serving

SECRET = "plantedSignature123"


class Files(BaseHTTPRequestHandler):
    """Enough of an HTTP server, and of S3's way to speak, for one bucket of files in memory."""

    server: Server
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _key(self) -> str:
        return unquote(urlsplit(self.path).path)

    def _answer(self, *, body: bool) -> None:
        self.server.asked.append((self.command, self.path, dict(self.headers)))
        asked = parse_qs(urlsplit(self.path).query)
        if "list-type" in asked:
            prefix, bucket = asked.get("prefix", [""])[0], f"{self._key().rstrip('/')}/"
            keys = [
                key.removeprefix(bucket)
                for key in self.server.files
                if key.startswith(bucket + prefix)
            ]
            listed = "".join(
                f"<Contents><Key>{key}</Key><Size>{len(self.server.files[bucket + key])}</Size>"
                '<LastModified>2026-01-01T00:00:00Z</LastModified><ETag>"x"</ETag><StorageClass>STANDARD</StorageClass></Contents>'
                for key in keys
            )
            self._send(
                200,
                f"<ListBucketResult><KeyCount>{len(keys)}</KeyCount>{listed}</ListBucketResult>".encode(),
                {},
            )
            return
        data = self.server.files.get(self._key())
        if data is None:
            self._send(self.server.missing, b"", {})
            return
        begin, end = 0, len(data)
        if found := re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", "")):
            begin, end = int(found[1]), min(int(found[2]) + 1, end)
        headers = {
            "ETag": '"x"',
            "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT",
            **self.server.headers,
        }
        self._send(
            206 if found else 200,
            data[begin:end] if body else b"",
            {"Content-Length": str(end - begin), **headers},
        )

    def _send(self, status: int, data: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **headers}.items():
            self.send_header(name, value)
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(data)
        self.close_connection = True

    def log_message(self, *_: Any) -> None:
        pass


class Server(ThreadingHTTPServer):
    """The files, what was asked for, and how it answers."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Files)
        self.files: dict[str, bytes] = {}
        self.asked: list[tuple[str, str, dict[str, str]]] = []
        self.headers: dict[str, str] = {}
        self.missing = 404
        self.url = f"http://127.0.0.1:{self.server_port}"


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def s3(server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """As the user's own AWS settings would lead there."""
    pytest.importorskip("s3fs")
    settings = {
        "AWS_ACCESS_KEY_ID": "planted",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": server.url,
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    return server


def said_of(name: str) -> str:
    with pytest.raises(InputError) as caught:
        load_pairs(name)
    assert SECRET not in str(caught.value)
    return str(caught.value)


def test_reads_what_a_server_has_in_any_format_and_compression(server: Server) -> None:
    texts = {
        "/a.jsonl": as_lines(HELPSTEER),
        "/b.csv.gz": gzip.compress(as_csv(HELPSTEER)),
        "/c.parquet": as_parquet(HELPSTEER),
        "/download": as_csv(HELPSTEER),  # the name says nothing
    }
    server.files |= texts
    for name in texts:
        assert [pair.response for pair in load_pairs(f"{server.url}{name}").pairs] == [
            row["response"] for row in HELPSTEER
        ]
    assert (
        load_pairs(f"{server.url}/a.jsonl").sha256
        == load_pairs([f"{server.url}/a.jsonl"], limit=1).sha256
    )


def test_tells_nothing_of_a_signature_or_a_password(server: Server, tmp_path: Path) -> None:
    write_pairs(tmp_path / "p.jsonl", 2)
    server.files["/p.jsonl"] = (tmp_path / "p.jsonl").read_bytes()
    signed = f"{server.url}/p.jsonl?X-Signature={SECRET}"
    with serving(lambda number, _: completion(f"Feedback: no.\nRating: {number % 5}")) as wire:
        asked = judging(wire.url, signed, 4, "--run", "r")
        done = robin(*asked, cwd=tmp_path, OPENAI_API_KEY="", exits=0)
    assert any(SECRET in path for _, path, _ in server.asked)
    data = json.loads((tmp_path / "r" / "manifest.json").read_text(encoding="utf-8"))["data"]
    assert data["source"] == f"{server.url}/p.jsonl?…"
    for file in (tmp_path / "r").rglob("*"):
        assert file.is_dir() or SECRET.encode() not in file.read_bytes()
    assert SECRET not in done.stderr + done.stdout

    assert said_of(f"{server.url}/gone.jsonl?X-Signature={SECRET}") == (
        f"{server.url}/gone.jsonl?…: there is no such file. Check the address."
    )
    server.asked.clear()
    for address in (
        f"http://me:{SECRET}@127.0.0.1:{server.server_port}/p.jsonl",
        f"s3://{SECRET}@bucket/p.jsonl",
    ):
        assert (
            "holds a user or a password, which would be written to disk. Leave it out"
            in said_of(address)
        )
    assert not server.asked


def test_says_what_a_server_answers_and_what_to_do(server: Server) -> None:
    for status, fact, step in (
        (403, "access is refused", "robin uses the credentials of your other tools"),
        (503, "the server answers with HTTP 503", "or try again later"),
    ):
        server.missing = status
        said = said_of(f"{server.url}/p.jsonl")
        assert said.startswith(f"{server.url}/p.jsonl: {fact}. ")
        assert step in said
    url = server.url
    server.server_close()
    assert "it cannot be reached or read (" in said_of(f"{url}/p.jsonl")
    assert said_of("ftp://host/p.jsonl").startswith(
        "ftp://…: nothing reads such addresses. Name a file, or an address by https://, s3:// and gs://, or hf://"
    )
    assert said_of("https://").startswith(
        "https://…: names no file. Write it as https://HOST/FILE."
    )


def test_takes_a_whole_file_and_unpacks_nothing(server: Server) -> None:
    server.files["/a.jsonl"] = gzip.compress(as_lines(HELPSTEER))
    server.headers = {"Content-Encoding": "gzip"}
    assert "a.jsonl: the name says text, but the file is gzip-compressed." in said_of(
        f"{server.url}/a.jsonl"
    )
    server.headers = {}
    server.files["/c.jsonl"] = as_lines(HELPSTEER)
    server.headers = {"Content-Length": "5000"}  # and then it hangs up
    assert "c.jsonl: it cannot be reached or read (" in said_of(f"{server.url}/c.jsonl")


def test_reads_s3_by_the_user_s_own_settings_also_by_a_glob(s3: Server) -> None:
    for shard, row in enumerate(HELPSTEER):
        s3.files[f"/bucket/shards/{shard}.jsonl"] = as_lines([row])
    data = load_pairs("s3://bucket/shards/*.jsonl")
    assert [pair.response for pair in data.pairs] == [row["response"] for row in HELPSTEER]
    assert [name for name, _ in data.files] == [
        "s3://bucket/shards/0.jsonl",
        "s3://bucket/shards/1.jsonl",
    ]
    assert (
        said_of("s3://bucket/none/*.jsonl")
        == "s3://bucket/none/*.jsonl: matches no file. Check the pattern."
    )
    s3.missing = 403
    assert said_of("s3://bucket/secret.jsonl").startswith(
        "s3://bucket/secret.jsonl: access is refused. robin uses the credentials"
    )


def test_names_the_extra_that_a_scheme_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = importlib.import_module("fsspec.registry")
    for scheme, library in {"s3": "s3fs", "gs": "gcsfs"}.items():
        monkeypatch.setitem(sys.modules, library, None)
        monkeypatch.delitem(registry._registry, scheme, raising=False)
        assert said_of(f"{scheme}://bucket/p.jsonl") == (
            f"{scheme}://bucket/p.jsonl: needs {library}, which is not installed. "
            "Install it: pip install '.[remote]' in robin's checkout."
        )


def test_refuses_an_output_at_an_address_before_anything_is_paid_for(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "p.jsonl", 2)
    with serving(lambda *_: completion()) as wire:
        endpoint = ("--model", "m", "--base-url", wire.url)
        asked = ("judge", data, "-a", "helpfulness", "-b", "4", *endpoint, "--run", "r")
        done = robin(*asked, "-o", "s3://bucket/scores.csv", cwd=tmp_path, exits=2)
    said = "-o s3://bucket/scores.csv: cannot be written (it is an address, and robin writes to this machine)"
    assert said in " ".join(done.stderr.split())
    assert not wire.bodies


def test_fetches_nothing_that_only_a_received_run_or_a_found_file_names(
    server: Server, tmp_path: Path
) -> None:
    write_pairs(tmp_path / "p.jsonl", 2)
    server.files["/p.jsonl"] = (tmp_path / "p.jsonl").read_bytes()
    address = f"{server.url}/p.jsonl"
    with serving(lambda number, _: completion(f"Feedback: no.\nRating: {number % 5}")) as wire:
        endpoint = ("--model", "m", "--base-url", wire.url)
        robin(*judging(wire.url, address, 4, "--run", "r"), cwd=tmp_path, exits=0)
        server.asked.clear()
        # by the copy that it keeps
        robin("resume", "r", "-b", "8", "-o", "scores.csv", cwd=tmp_path, exits=0)
        for command in (("status", "r"), ("export", "r"), ("report", "r", "-o", "r.html")):
            robin(*command, cwd=tmp_path, exits=0)

        (tmp_path / "robin.toml").write_text(f'data = "{address}"\n', encoding="utf-8")
        refused = robin("judge", "-a", "helpfulness", "-b", "4", *endpoint, cwd=tmp_path, exits=2)
        assert (
            "robin.toml: data: a robin.toml that robin found does not decide that data come from an address"
            in " ".join(refused.stderr.split())
        )
    assert not server.asked


def test_knows_addresses_from_paths() -> None:
    for path in ("-", "p.jsonl", "C:\\x.jsonl", "C://x", "./s3://x", "a b://x", ""):
        assert not remote.scheme_of(path)
    assert [remote.scheme_of(each) for each in ("S3://b/k", "hf://a/b")] == ["s3", "hf"]
    assert remote.is_remote("S3://b/k")
    assert not remote.is_remote("hf://a/b")
