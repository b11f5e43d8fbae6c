"""All ways to say which service is meant, and the words for those that say nothing."""

from __future__ import annotations

import copy
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl
import pytest

import rt_frames as rt
from rt_frames.errors import ConnectError, NotConnectedError
from tests.support.faults import assert_no_key, certificates
from tests.support.servers import KEY

URL = "https://words-x1.us-east-1.example.com"


def test_a_hosted_service_is_named_by_its_url_or_its_parts_or_by_the_environment(
    monkeypatch,
):
    parts = {"region": "us-east-1", "domain": "example.com"}
    for target, options in ((URL, {}), (URL + "/", {}), ("words-x1", parts)):
        assert rt.connect(target, api_key=KEY, default=False, **options).url == URL
    monkeypatch.setenv("RT_FRAMES_API_KEY", KEY)
    by_parts = {
        "RT_FRAMES_DB": "words-x1",
        **{f"RT_FRAMES_{name.upper()}": value for name, value in parts.items()},
    }
    for environment in (by_parts, {"RT_FRAMES_URL": URL}):
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        assert rt.connect(default=False).url == URL


def test_a_folder_is_the_embedded_service_shared_and_made_when_missing(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    clients = [
        rt.connect("./tables"),
        rt.connect(Path("tables")),
        rt.connect(tmp_path / "tables"),
    ]
    assert len({client.url for client in clients}) == 1
    assert (tmp_path / "tables").is_dir()
    pl.DataFrame({"a": [1]}).remote.to_table("t")
    assert [client.list_tables() for client in clients] == [["t"]] * 3


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


def test_threads_that_open_a_closed_folder_again_count_as_one_client(tmp_path):
    for _ in range(3):
        client = rt.connect(tmp_path / "tables", default=False)
        client.close()
        with ThreadPoolExecutor(8, initializer=threading.Barrier(8).wait) as pool:
            assert [
                done.result()
                for done in [pool.submit(client.list_tables) for _ in range(8)]
            ] == [[]] * 8
        url = client.url
        client.close()
        with pytest.raises(ConnectError):
            rt.connect(url, api_key="k", retries=0, default=False).list_tables()


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
    for exists in (False, True):
        if exists:
            Path(target).mkdir(parents=True)
        for given, url in ((target, None), (None, target)):
            monkeypatch.setenv("RT_FRAMES_URL", url or URL)
            words = rf"(?s){target!r} is neither a URL nor a folder"
            with pytest.raises(ValueError, match=words):
                rt.connect(given, api_key=KEY)
        assert Path(target).exists() is exists


PATHS = [
    ".",
    "./tables",
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
    for _ in range(2):
        with rt.connect(target) as client:
            assert str(client) == str(Path(target).expanduser())
            assert Path(target).expanduser().is_dir()


LOCAL = {"api_key": None}
ODD = [  # beside those in tests/messages.txt: a target, options, and what is blamed
    (
        None,
        {"region": "us-east-1"},
        r"^target, domain: missing; .* need a database name\. Ways to connect:",
    ),
    (
        None,
        {"region": "us-east-1", "domain": "example.com"},
        "^target: missing; region= and domain= need a database name",
    ),
    (
        "words-x1",
        {"domain": "example.com"},
        "^region: missing; a database name needs region= and domain=",
    ),
    (URL, {"region": "us-east-1"}, "target is a whole URL; leave them out"),
    ("words x1", {"region": "us-east-1", "domain": "example.com"}, "target.*host name"),
    ("", {}, r"rt\.connect\("),
    ("//example.com/tables", {}, "write https://, http:// or ./ before it"),
    ("somebody:password@example.com/", {}, "'example.com/' is neither"),
    ("https://somebody:password@example.com:x", {}, "got 'example.com:x'"),
    ("s3://bucket/tables", LOCAL, "^'s3://bucket/tables' is no URL"),
    ("127.0.0.1:8911", {}, "write https://, http:// or ./ before it"),
    ("localhost:8911/", LOCAL, "write https://, http:// or ./ before it"),
    ("http://127.0.0.1:8911/v1/", {}, "leave out /v1"),
    ("https://example.com?x=1", {}, "without user"),
    ("https://", {}, "^url: 'https://' has no host; expected https://HOST"),
    ("https://", {"api_key": None}, "has no host"),
    ("https://:443", {"api_key": None}, "has no host"),
    ("http:///tables", {"api_key": None}, "has no host"),
    (r"http://evil.example\.localhost", {}, "special characters"),
    ("http://localhost@evil.example", {}, "without user"),
    ("http://localhost%2eevil.example", {}, "allow_insecure"),
    *(
        (URL, {"timeout": seconds}, "timeout")
        for seconds in ((1, 2), 1e10, (1, 10**400, 1), float("nan"))
    ),
    *(
        (URL, {"headers": {name: "c"}}, "headers: .*valid header name")
        for name in ("x-api-key ", "a:b", " a", "a\n", "")
    ),
    (URL, {"headers": {"X-API-Key": "b"}}, "headers.*api_key"),
    (URL, {"headers": {"a": b"c"}}, "headers: the value of 'a' is not a string"),
]


@pytest.mark.parametrize(("target", "options", "told"), ODD)
def test_a_wrong_form_says_what_is_wrong_with_it(target, options, told):
    with pytest.raises((ValueError, TypeError), match=f"(?s){told}") as raised:
        rt.connect(target, **{"api_key": KEY, **options})
    assert "password" not in str(raised.value)


@pytest.mark.parametrize(
    "folder",
    ["/file/below", "/circle", "/circle/below", "/" + "x" * 300, "~nobody-here/x"],
)
def test_a_folder_that_cannot_be_is_an_argument_that_cannot_be_used(
    tmp_path, monkeypatch, folder
):
    (tmp_path / "file").touch()
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    target = folder if folder[0] == "~" else f"{tmp_path}{folder}"
    monkeypatch.setenv("RT_FRAMES_URL", target)
    for connect in (lambda: rt.connect(target), rt.list_tables):
        words = r"'.*cannot be a folder of tables: .*; choose another"
        with pytest.raises(ValueError, match=words):
            connect()


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
def test_no_error_about_an_argument_has_the_key_in_its_frames(
    monkeypatch, caplog, wrong
):
    given = {"target": URL, "api_key": KEY, **wrong}
    target = given.pop("target")
    key = given.pop("api_key")
    doors = [
        lambda: rt.connect(target, api_key=key, **given),
        lambda: rt.Client(target, api_key=key, **given),
    ]
    # the environment holds only text, and a folder needs no key
    if target not in (3, "./folder"):
        monkeypatch.setenv("RT_FRAMES_URL", target)
        monkeypatch.setenv("RT_FRAMES_API_KEY", key if isinstance(key, str) else "k k")
        monkeypatch.setenv("RT_FRAMES_DIALECT", given.get("dialect", ""))
        doors.append(
            rt.list_tables
            if given.keys() <= {"dialect"}
            else lambda: rt.connect(**given)
        )
    for door in doors:
        with pytest.raises((ValueError, TypeError)) as raised:
            door()
        assert_no_key(raised.value, caplog)


def everything_in(value: object, depth: int = 6) -> str:
    """Show whatever can be reached through vars()."""
    inside = getattr(value, "__dict__", None) or (
        value if isinstance(value, dict) else {}
    )
    return (
        repr(value) + "".join(everything_in(v, depth - 1) for v in inside.values())
        if depth
        else ""
    )


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


def test_F42_a_client_that_is_unpickled_beside_another_key_sends_neither(
    server, monkeypatch
):
    packed = pickle.dumps(rt.connect(server.url, api_key=KEY, default=False))
    monkeypatch.setenv("RT_FRAMES_API_KEY", "the-key-of-another-service")
    # the error comes at first use: process pools do not survive one in unpickling
    unpickled = pickle.loads(packed)
    for use in (
        unpickled.list_tables,
        lambda: unpickled.create_table("t", pl.DataFrame({"a": [1]})),
    ):
        words = "is not the key that it was made with"
        with pytest.raises(NotConnectedError, match=words):
            use()
    assert server.connections == 0


@pytest.mark.parametrize(
    "missing", ["verify", "REQUESTS_CA_BUNDLE", "a key without a line end"]
)
@pytest.mark.parametrize("target", [URL, "./tables"])
def test_F42_unpickling_never_raises_but_the_first_call_does(
    tmp_path, monkeypatch, target, missing
):
    monkeypatch.chdir(tmp_path)
    certificates()[0].cert_pem.write_to_path("ca.pem")
    verify = "ca.pem" if missing == "verify" else True
    key = KEY if target == URL else None
    client = rt.connect(target, api_key=key, verify=verify, default=False)
    packed = pickle.dumps(client)
    Path("ca.pem").unlink()
    monkeypatch.setenv("RT_FRAMES_API_KEY", f"{KEY}\n" if "key" in missing else KEY)
    if missing == "REQUESTS_CA_BUNDLE":
        monkeypatch.setenv(missing, "ca.pem")
    unpickled = pickle.loads(packed)
    assert str(unpickled) == str(client)
    if target == URL:
        words = r"unpickled client .*(is not the key|api_key|ca.pem)"
        with pytest.raises(NotConnectedError, match=words):
            unpickled.list_tables()
    else:
        assert unpickled.list_tables() == []


def test_F42_a_copy_is_the_client_itself_whatever_the_environment_says(
    server, monkeypatch
):
    monkeypatch.setenv("RT_FRAMES_API_KEY", "the-key-of-another-service")
    table = rt.connect(server.url, api_key=KEY, default=False).table("t")
    for copied in (
        copy.copy(table.client),
        copy.deepcopy(table.client),
        copy.deepcopy(table).client,
    ):
        assert copied is table.client
        copied.list_tables()
    assert {request.headers["x-api-key"] for request in server.requests} == {KEY}


def test_further_headers_are_secrets_too(server):
    client = rt.connect(
        server.url,
        api_key=KEY,
        headers={"authorization": "Bearer s3cret"},
        default=False,
    )
    client.list_tables()
    assert server.requests[0].headers["authorization"] == "Bearer s3cret"
    assert "s3cret" not in everything_in(client)
    words = "extra headers are secrets, which cannot be pickled; connect again"
    with pytest.raises(TypeError, match=words):
        pickle.dumps(client)


def test_what_lancedb_s_own_headers_say_travels_with_a_pickle_and_may_be_told(
    server, monkeypatch
):
    monkeypatch.setenv("RT_FRAMES_API_KEY", KEY)
    headers = {
        "x-lancedb-database": "my database",
        "X-LanceDB-Min-Version": "12345678",
        "x-lancedb-": "mine-alone",
    }
    client = rt.connect(server.url, api_key=KEY, headers=headers, default=False)
    for one in (
        client,
        pickle.loads(pickle.dumps(client)),
        pickle.loads(pickle.dumps(client.table("t"))).client,
    ):
        server.listing((400, {"error": f"no {', '.join(headers.values())} for {KEY}"}))
        server.requests.clear()
        words = r"no my database, 12345678, mine-alone for \*\*\*"
        with pytest.raises(rt.errors.BadRequest, match=words):
            one.list_tables()
        sent = server.requests[0].headers
        assert [sent[name.lower()] for name in headers] == [*headers.values()]
    for secret in ("authorization", "xx-lancedb-token", "x-lancedb"):
        client = rt.connect(
            server.url,
            api_key=KEY,
            headers={**headers, secret: "Bearer s3cret"},
            default=False,
        )
        assert "s3cret" not in everything_in(client)
        with pytest.raises(TypeError, match="extra headers are secrets"):
            pickle.dumps(client)


def test_a_thousand_lists_open_one_connection(server, remote):
    for _ in range(1000):
        assert remote.list_tables() == []
    assert server.connections == 1
