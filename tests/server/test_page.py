"""The page at `/`: for browsers only, with a policy that lets nothing in but the page's own script."""

import base64
import hashlib
import re

import pytest

from support.scripted_engine import ScriptedEngine
from support.served import Served, serving
from support.stand_in_home import Home

BROWSER = {
    "Accept": "text/html,application/xhtml+xml,*/*;q=0.8",
    "Sec-Fetch-Site": "none",
    "Sec-Fetch-Mode": "navigate",
}


def test_a_browser_gets_the_page_and_clients_of_ollama_what_they_look_for() -> None:
    with serving(Home(ScriptedEngine())) as served:
        page = served.get("/", **BROWSER)
        assert page.status_code == 200 and page.headers["content-type"] == "text/html; charset=utf-8"
        assert "<title>chatapp</title>" in page.text
        assert served.get("/").text == "Ollama is running" == served.get("/", Accept="*/*").text
        assert served.client.head("/").status_code == 200


def test_the_policy_knows_the_script_and_the_style_by_their_digests_and_nobody_else() -> None:
    with serving(Home(ScriptedEngine())) as served:
        page = served.get("/", **BROWSER)
    policy = dict(part.strip().split(" ", 1) for part in page.headers["content-security-policy"].split(";"))
    for name, directive in (("script", "script-src"), ("style", "style-src")):
        opening, closing = page.text.index(f"<{name}>") + len(name) + 2, page.text.index(f"</{name}>")
        known = base64.b64encode(hashlib.sha256(page.text[opening:closing].encode()).digest()).decode()
        assert policy[directive] == f"'sha256-{known}'"
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert policy["connect-src"] == "'self'" and policy["require-trusted-types-for"] == "'script'"


def test_the_page_names_no_other_machine_and_writes_no_html() -> None:
    with serving(Home(ScriptedEngine())) as served:
        text = served.get("/", **BROWSER).text
    assert not re.search(r"https?:|//[a-z]+\.|@import|url\(", text)
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|\son[a-z]+=|\sstyle=", text)


@pytest.mark.parametrize(
    ("headers", "status"),
    [({"Host": "evil.example"}, 403), ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, 403)],
)
def test_it_is_guarded_as_all_else_is(headers: dict[str, str], status: int) -> None:
    with serving(Home(ScriptedEngine())) as served:
        assert served.get("/", **BROWSER | headers).status_code == status


def test_where_keys_are_needed_the_page_comes_and_asks_for_one() -> None:
    with serving(Home(ScriptedEngine()), keys=("0123456789abcdef",)) as served:
        page: Served = served
        text = page.get("/", **BROWSER).text
        assert 'id="key"' in text and "This server needs a key: enter it above." in text
        assert page.get("/v1/models").status_code == 401
