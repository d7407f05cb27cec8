"""The ruler of long polling itself, against the document's examples: a wrong client proves nothing about a server."""

import base64
import collections
import json

import pytest

from long_polling import PIECE, URL_BUDGET, calls_of, next_url_data, segments_of
from transports import ProtocolError, compact, control

START = """
function pLPCommand(c, a, b) { var f = parent.window["pLPCommand7"]; if (f) { f(c, a, b); } }
function pRTLPCB(n, msgs)    { var f = parent.window["pRTLPCB7"];    if (f) f(n, msgs); }
pLPCommand('start', '5124373', 'k2Jd83hf0Q');
pRTLPCB(0, [{"t":"c","d":{"t":"h","d":{"ts":1638559030693,"v":"5","h":"localhost:9000","s":"}"}}}]);
"""

SCRIPTS = [  # text, its calls
    ("pRTLPCB(3,[]);", [("pRTLPCB", [3, []])]),
    ("pLPCommand('close');", [("pLPCommand", ["close"])]),
    ("pRTLPCB(4,[1]);pLPCommand('close', 4);", [("pRTLPCB", [4, [1]]), ("pLPCommand", ["close", 4])]),
    ('pLPCommand("close", 5)\n', [("pLPCommand", ["close", 5])]),
    ('pRTLPCB(1, [{"a":");pLPCommand(1)"}]);', [("pRTLPCB", [1, [{"a": ");pLPCommand(1)"}]])]),
]

NO_SCRIPTS = ["alert(1);", "pRTLPCB(1,[", "pRTLPCB(1,[undefined]);", "function pLPCommand() {", "<html>"]


def test_the_start_script_of_1_5_1_is_two_definitions_and_two_calls():
    calls, defined = calls_of(START, definitions=True)
    assert defined == ["pLPCommand", "pRTLPCB"]
    assert calls[0] == ("pLPCommand", ["start", "5124373", "k2Jd83hf0Q"])
    assert calls[1][0] == "pRTLPCB" and calls[1][1][1][0]["d"]["d"]["s"] == "}"


@pytest.mark.parametrize("script, calls", SCRIPTS)
def test_calls_of_a_response(script, calls):
    assert calls_of(script) == calls


@pytest.mark.parametrize("script", NO_SCRIPTS)
def test_malformed_responses_are_refused(script):
    with pytest.raises(ProtocolError):
        calls_of(script)


def test_the_worked_examples_of_1_5_2():
    message = compact({"t": "d", "d": {"r": 1, "a": "s", "b": {"c": {"sdk.js.12-18-0": 1}}}})
    data = next_url_data(collections.deque(segments_of(message.encode(), 0)))
    text = "eyJ0IjoiZCIsImQiOnsiciI6MSwiYSI6InMiLCJiIjp7ImMiOnsic2RrLmpzLjEyLTE4LTAiOjF9fX19"
    assert data == f"&seg0=0&ts0=1&d0={text}"
    assert segments_of(control("n").encode(), 3) == [(3, 1, "eyJ0IjoiYyIsImQiOnsidCI6Im4iLCJkIjp7fX19")]


@pytest.mark.parametrize("length", [0, 1, 2, 3, 1378, 1379, 1380, 1381, 5000])
def test_segments_come_together_again_and_fit_their_urls(length):
    text = json.dumps("é" * length, ensure_ascii=False).encode()
    segments = collections.deque(segments_of(text, 10) + segments_of(b"next", 10_000))
    pieces = [piece for number, _, piece in segments if number < 10_000]
    assert base64.urlsafe_b64decode("".join(pieces).replace(".", "=")) == text
    assert all(len(piece) <= PIECE for piece in pieces)
    assert {count for number, count, _ in segments if number < 10_000} == {len(pieces)}
    carried = []
    while segments:
        before = len(segments)
        data = next_url_data(segments)
        carried += [part for part in data.split("&") if part.startswith("d")]
        assert len(segments) < before and len(data) <= URL_BUDGET + 30
    assert len(carried) == len(pieces) + 1
