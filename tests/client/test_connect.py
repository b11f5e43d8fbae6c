"""All ways to say which service is meant, and the words for those that say nothing."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import polars as pl
import pytest

import rt_frames as rt
from rt_frames.errors import BadRequest, NotConnectedError
from tests.support.faults import assert_no_key, certificates
from tests.support.servers import KEY

URL = "https://words-x1.us-east-1.example.com"


IN_PARTS = {"region": "us-east-1", "domain": "example.com"}
BY_PARTS = {
    "RT_FRAMES_DB": "words-x1",
    "RT_FRAMES_REGION": "us-east-1",
    "RT_FRAMES_DOMAIN": "example.com",
}
NAMED = [
    (URL, {}, {}),
    (f"{URL}/", {}, {}),
    ("words-x1", IN_PARTS, {}),
    (None, {}, BY_PARTS),
    (None, {}, {"RT_FRAMES_URL": URL}),
]


@pytest.mark.parametrize(("target", "options", "environment"), NAMED)
def test_a_hosted_service_is_named_by_its_url_or_its_parts_or_by_the_environment(
    monkeypatch, target, options, environment
):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert rt.connect(target, api_key=KEY, **options).url == URL


def test_a_folder_is_shared_and_made_when_missing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    by_text = rt.connect("./tables")
    by_path = rt.connect(tmp_path / "tables")
    assert by_text.url == by_path.url
    assert (tmp_path / "tables").is_dir()
    pl.DataFrame({"a": [1]}).remote.to_table("t")
    assert by_text.list_tables() == ["t"]


def test_the_environment_is_read_anew_when_it_changed(tmp_path, monkeypatch):
    frame = pl.DataFrame({"a": [1]})
    for name in ("one", "two"):
        monkeypatch.setenv("RT_FRAMES_URL", str(tmp_path / name))
        frame.remote.to_table(name)
        assert rt.list_tables() == [name]
    # an open client goes before the environment, and that before a closed client
    with rt.connect(tmp_path / "three"):
        monkeypatch.setenv("RT_FRAMES_URL", str(tmp_path / "one"))
        assert rt.list_tables() == []
    assert rt.list_tables() == ["one"]


def test_a_closed_default_client_is_none(tmp_path):
    rt.connect(tmp_path / "tables").close()
    with pytest.raises(NotConnectedError, match="the default client was closed"):
        rt.list_tables()
    rt.disconnect()
    with pytest.raises(NotConnectedError, match="not connected to any service"):
        rt.list_tables()


NEITHER = ["tables", "tables/", "a/b", ".tables", "db.us-east-1.example.com/", "h:8911"]


@pytest.mark.parametrize("target", NEITHER)
def test_what_a_string_means_does_not_depend_on_what_is_in_the_working_folder(
    tmp_path, monkeypatch, target
):
    monkeypatch.chdir(tmp_path)
    words = rf"(?s){target!r} is neither a URL nor a folder"
    with pytest.raises(ValueError, match=words):
        rt.connect(target, api_key=KEY)
    assert not Path(target).exists()
    Path(target).mkdir(parents=True)
    monkeypatch.setenv("RT_FRAMES_URL", target)
    with pytest.raises(ValueError, match=words):
        rt.connect(api_key=KEY)


PATHS = [
    ".",
    "../tables",
    "~",
    "~/tables",
    "{root}/tables",
    "./db.example.com",
    "./a:1",
]


@pytest.mark.parametrize("target", PATHS)
def test_a_string_that_begins_as_a_path_is_a_folder_whether_it_is_there_or_not(
    tmp_path, monkeypatch, target
):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    target = target.format(root=tmp_path)
    folder = Path(target).expanduser()
    for _ in range(2):
        with rt.connect(target) as client:
            assert str(client) == str(folder)
            assert folder.is_dir()


LOCAL = {"api_key": None}
REGION = {"region": "us-east-1"}
DOMAIN = {"domain": "example.com"}
ODD = [  # beside those in test_mistakes.py: a target, options, and what is blamed
    (None, REGION, r"^target, domain: missing; .* a database name\. Ways to connect:"),
    (None, IN_PARTS, "^target: missing; region= and domain= need a database name"),
    ("words-x1", DOMAIN, "^region: missing; a database name needs region= and domain="),
    (URL, REGION, "target is a whole URL; leave them out"),
    ("words x1", IN_PARTS, "target.*host name"),
    ("", {}, r"rt\.connect\("),
    ("//example.com/tables", {}, "write https://, http:// or ./ before it"),
    ("somebody:password@example.com/", {}, "'example.com/' is neither"),
    ("https://somebody:password@example.com:x", {}, "got 'example.com:x'"),
    ("127.0.0.1:8911", {}, "write https://, http:// or ./ before it"),
    ("localhost:8911/", LOCAL, "write https://, http:// or ./ before it"),
    ("https://example.com?x=1", {}, "without user"),
    ("https://", {}, "^url: 'https://' has no host; expected https://HOST"),
    ("https://:443", LOCAL, "has no host"),
    ("http:///tables", LOCAL, "has no host"),
    (r"http://evil.example\.localhost", {}, "special characters"),
    ("http://localhost@evil.example", {}, "without user"),
    ("http://localhost%2eevil.example", {}, "allow_insecure"),
    (URL, {"timeout": (1, 2)}, "timeout"),
    (URL, {"timeout": 1e10}, "timeout"),
    (URL, {"timeout": (1, 10**400, 1)}, "timeout"),
    (URL, {"timeout": float("nan")}, "timeout"),
    (URL, {"headers": {"x-api-key ": "c"}}, "headers: .*valid header name"),
    (URL, {"headers": {"a:b": "c"}}, "headers: .*valid header name"),
    (URL, {"headers": {"a\n": "c"}}, "headers: .*valid header name"),
    (URL, {"headers": {"": "c"}}, "headers: .*valid header name"),
    (URL, {"headers": {"X-API-Key": "b"}}, "headers.*api_key"),
    (URL, {"headers": {"a": b"c"}}, "headers: the value of 'a' is not a string"),
]


@pytest.mark.parametrize(("target", "options", "told"), ODD)
def test_a_wrong_form_says_what_is_wrong_with_it(target, options, told):
    with pytest.raises((ValueError, TypeError), match=f"(?s){told}") as raised:
        rt.connect(target, **{"api_key": KEY, **options})
    assert "password" not in str(raised.value)


UNUSABLE = ["./file/below", "./circle", "./" + "x" * 300, "~nobody-here/x"]


@pytest.mark.parametrize("folder", UNUSABLE)
def test_a_folder_that_cannot_be_is_an_argument_that_cannot_be_used(
    tmp_path, monkeypatch, folder
):
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    Path("circle").symlink_to("circle")
    words = r"'.*cannot be a folder of tables: .*; choose another"
    with pytest.raises(ValueError, match=words):
        rt.connect(folder)
    monkeypatch.setenv("RT_FRAMES_URL", folder)
    with pytest.raises(ValueError, match=words):
        rt.list_tables()


def test_the_longest_time_that_is_taken_can_be_waited_for(server):
    with rt.connect(server.url, api_key=KEY, timeout=10**6, default=False) as client:
        assert client.list_tables() == []
        assert client.create_table("t", pl.DataFrame({"a": [1]})).created


WRONG = [
    {"target": 3},
    {"target": "ftp://example.com"},
    {"target": "http://example.com"},
    {"target": "https://a?b"},
    {"target": "./folder"},
    {"region": "us"},
    {"timeout": -1},
    {"retries": -1},
    {"dialect": "x"},
    {"verify": "/none"},
    {"headers": {"authorization": KEY, "b c": "d"}},
    {"headers": {"authorization": f"{KEY}\n"}},
    {"headers": {"authorization": KEY.encode()}},
    {"api_key": f"{KEY}\n"},
    {"api_key": KEY.encode()},
]


@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_no_error_about_an_argument_has_the_key_in_its_frames(caplog, wrong):
    given = {"target": URL, "api_key": KEY, **wrong}
    target = given.pop("target")
    with pytest.raises((ValueError, TypeError)) as raised:
        rt.connect(target, **given)
    assert_no_key(raised.value, caplog)
    with pytest.raises((ValueError, TypeError)) as raised:
        rt.Client(target, **given)
    assert_no_key(raised.value, caplog)


FROM_OUTSIDE = [
    ("RT_FRAMES_URL", "ftp://example.com", "is no URL"),
    ("RT_FRAMES_URL", "https://a?b", "without user"),
    ("RT_FRAMES_DIALECT", "x", "RT_FRAMES_DIALECT.*documented.*lancedb.*'x'"),
    ("RT_FRAMES_API_KEY", f"{KEY}\n", "api_key"),
]


@pytest.mark.parametrize(("name", "value", "words"), FROM_OUTSIDE)
def test_no_error_about_the_environment_has_the_key_in_its_frames(
    monkeypatch, caplog, name, value, words
):
    monkeypatch.setenv("RT_FRAMES_URL", URL)
    monkeypatch.setenv("RT_FRAMES_API_KEY", KEY)
    monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=words) as raised:
        rt.list_tables()
    assert_no_key(raised.value, caplog)


def everything_in(value: object, depth: int = 6) -> str:
    """Show whatever can be reached through vars()."""
    if not depth:
        return ""
    inside = getattr(value, "__dict__", None)
    if isinstance(value, dict):
        inside = value
    shown = repr(value)
    for part in (inside or {}).values():
        shown += everything_in(part, depth - 1)
    return shown


def test_the_key_shows_nowhere_and_a_pickled_client_takes_it_from_the_environment(
    client, monkeypatch
):
    client.list_tables()
    assert KEY not in everything_in(client) + repr(client.table("t"))
    packed = pickle.dumps(client)
    assert KEY.encode() not in packed
    # the hash of the key is salted
    assert packed != pickle.dumps(rt.connect(client.url, api_key=KEY, default=False))
    with pytest.raises(NotConnectedError, match="RT_FRAMES_API_KEY"):
        pickle.loads(packed).list_tables()
    monkeypatch.setenv("RT_FRAMES_API_KEY", KEY)
    assert pickle.loads(packed).list_tables() == client.list_tables()


def test_a_relative_folder_stays_where_it_is_whatever_the_working_directory_is(
    tmp_path, monkeypatch
):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(tmp_path)
    with rt.connect("./tables", default=False) as client:
        client.create_table("t", pl.DataFrame({"a": [1]}))
        monkeypatch.chdir(elsewhere)
        with pickle.loads(pickle.dumps(client)) as unpickled:
            assert unpickled.list_tables() == ["t"]
        client.close()
        assert client.list_tables() == ["t"]
    assert list(elsewhere.iterdir()) == []


def test_F42_a_client_that_is_unpickled_beside_another_key_sends_neither(
    server, monkeypatch
):
    packed = pickle.dumps(rt.connect(server.url, api_key=KEY, default=False))
    monkeypatch.setenv("RT_FRAMES_API_KEY", "the-key-of-another-service")
    # the error comes at first use: process pools do not survive one in unpickling
    unpickled = pickle.loads(packed)
    words = "is not the key that it was made with"
    with pytest.raises(NotConnectedError, match=words):
        unpickled.list_tables()
    with pytest.raises(NotConnectedError, match=words):
        unpickled.create_table("t", pl.DataFrame({"a": [1]}))
    assert server.connections == 0


@pytest.fixture
def ca(tmp_path):
    path = tmp_path / "ca.pem"
    certificates()[0].cert_pem.write_to_path(str(path))
    return path


def test_F42_unpickling_never_raises_but_the_first_call_does(monkeypatch, ca):
    monkeypatch.setenv("RT_FRAMES_API_KEY", KEY)
    client = rt.connect(URL, verify=str(ca), default=False)
    packed = pickle.dumps(client)
    ca.unlink()
    unpickled = pickle.loads(packed)
    assert str(unpickled) == str(client)
    with pytest.raises(NotConnectedError, match=r"unpickled client .*ca.pem"):
        unpickled.list_tables()


MISSING = {"REQUESTS_CA_BUNDLE": "ca.pem", "RT_FRAMES_API_KEY": f"{KEY}\n"}


@pytest.mark.parametrize("name", MISSING)
def test_F42_what_the_environment_lacks_is_told_by_the_first_call(monkeypatch, name):
    monkeypatch.setenv("RT_FRAMES_API_KEY", KEY)
    packed = pickle.dumps(rt.connect(URL, default=False))
    monkeypatch.setenv(name, MISSING[name])
    unpickled = pickle.loads(packed)
    with pytest.raises(NotConnectedError, match=r"unpickled client .*(api_key|ca.pem)"):
        unpickled.list_tables()


def test_F42_an_unpickled_client_of_a_folder_needs_nothing(monkeypatch, tmp_path, ca):
    packed = pickle.dumps(rt.connect(tmp_path, verify=str(ca), default=False))
    ca.unlink()
    monkeypatch.setenv("RT_FRAMES_API_KEY", f"{KEY}\n")
    assert pickle.loads(packed).list_tables() == []


def test_F42_a_copy_is_the_client_itself_whatever_the_environment_says(
    server, monkeypatch
):
    monkeypatch.setenv("RT_FRAMES_API_KEY", "the-key-of-another-service")
    table = rt.connect(server.url, api_key=KEY, default=False).table("t")
    assert copy.copy(table.client) is table.client
    assert copy.deepcopy(table.client) is table.client
    assert copy.deepcopy(table).client is table.client
    copy.copy(table.client).list_tables()
    assert server.requests[0].headers["x-api-key"] == KEY


OPEN = {
    "x-lancedb-database": "my database",
    "X-LanceDB-Min-Version": "12345678",
    "x-lancedb-": "mine-alone",
}
SECRET = [
    {"authorization": "Bearer s3cret"},
    {**OPEN, "xx-lancedb-token": "Bearer s3cret"},
    {**OPEN, "x-lancedb": "Bearer s3cret"},
]


@pytest.mark.parametrize("headers", SECRET)
def test_further_headers_are_secrets_too(server, headers):
    client = rt.connect(server.url, api_key=KEY, headers=headers, default=False)
    client.list_tables()
    assert "Bearer s3cret" in server.requests[0].headers.values()
    assert "s3cret" not in everything_in(client)
    words = "extra headers are secrets, which cannot be pickled; connect again"
    with pytest.raises(TypeError, match=words):
        pickle.dumps(client)


COPIES = [
    lambda client: client,
    lambda client: pickle.loads(pickle.dumps(client)),
    lambda client: pickle.loads(pickle.dumps(client.table("t"))).client,
]


@pytest.mark.parametrize("make", COPIES)
def test_what_lancedb_s_own_headers_say_travels_with_a_pickle_and_may_be_told(
    server, monkeypatch, make
):
    monkeypatch.setenv("RT_FRAMES_API_KEY", KEY)
    client = make(rt.connect(server.url, headers=OPEN, default=False))
    server.listing((400, {"error": f"no {', '.join(OPEN.values())} for {KEY}"}))
    words = r"no my database, 12345678, mine-alone for \*\*\*"
    with pytest.raises(BadRequest, match=words):
        client.list_tables()
    sent = server.requests[0].headers
    assert [sent[name.lower()] for name in OPEN] == [*OPEN.values()]
