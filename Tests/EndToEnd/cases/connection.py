"""Handshake, control messages, request numbers, statistics, unknown and odd requests (§1.1, §3, §4.0, §4.1, §15.1)."""

import time

from transcript import FRAMES, POLLS, case


def handshake_needs_no_request(world):
    raw = world.raw()
    assert raw.status == 101
    assert raw.receive_text().startswith('{"t":"c"')


def upgrade_headers_are_what_android_demands(world):
    head = world.raw().head.lower().split("\r\n")
    assert "upgrade: websocket" in head, head
    assert "connection: upgrade" in head, head


def timestamp_is_an_integer_near_now(world):
    assert abs(world.connect().hello["ts"] - time.time() * 1000) < 120_000


def session_ids_differ(world):
    sessions = {world.connect().session for _ in range(20)}
    assert len(sessions) == 20 and min(map(len, sessions)) >= 16, sessions


def host_is_echoed(world):
    world.connect(host=f"localhost:{world.port}")  # the connection checks h against its Host


def host_without_port_is_echoed(world):
    world.connect(host="pando.localhost")


def answers_keep_the_order_of_requests(world):
    connection = world.connect()
    wanted = [connection.request("p", {"p": f"/k{index}", "d": index}) for index in range(200)]
    answered = [connection.next_data() for _ in wanted]
    assert [r for _, r, _ in answered] == wanted
    assert all(body == {"s": "ok", "d": ""} for _, _, body in answered)


def deflate_may_be_declined(world):
    raw = world.raw(headers=["Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits"])
    assert raw.status == 101


def unescaped_query_values_are_read_leniently(world):
    world.connect(query=f"p=1:2:web:3&ac=a:b/c+d==&r=f&ns={world.ns}&v=5").close()


def trailing_slash_is_accepted(world):
    assert world.raw(path=f"/.ws/?v=5&ns={world.ns}").status == 101


CASES = [
    case("the handshake comes without a request", "17.2 #1", handshake_needs_no_request, over=FRAMES),
    case("the upgrade answer has exactly the headers Android demands", "1.1", upgrade_headers_are_what_android_demands, over=FRAMES),
    case("ts is an integer near our clock", "3.2", timestamp_is_an_integer_near_now),
    case("session ids are long and differ", "3.2", session_ids_differ),
    case("h is the Host of the request, port included", "1.4", host_is_echoed),
    case("h is the Host of the request, without a port", "1.4", host_without_port_is_echoed),
    case("two hundred pipelined requests are answered in order", "0.1 #1", answers_keep_the_order_of_requests),
    case("an offer of permessage-deflate does no harm", "1.1", deflate_may_be_declined, over=FRAMES),
    case("query parameters in any order and not percent-encoded", "1.1", unescaped_query_values_are_read_leniently),
    case("a trailing slash in the endpoint", "1.1", trailing_slash_is_accepted, over=FRAMES),
    case("another version than 5 is accepted", "1.1", """
        A opens version=4
        A> s {"c":{}}
        A< ok
    """),
    case("connect, statistics, ping", "15.1", """
        A> s {"c":{"sdk.js.12-18-0":1}}
        A< ok
        A> raw {"t":"c","d":{"t":"p","d":{}}}
        A< raw {"t":"c","d":{"t":"o","d":null}}
        A keeps alive
        A< nothing
    """),
    case("the first request of Android has number 0", "17.2 #2", """
        A> r=0 s {"c":{"sdk.android.20-3-0":1}}
        A< ok
    """),
    case("a request number up to 2^31-1 is echoed", "3.3", """
        A> r=2147483647 s {"c":{}}
        A< ok
    """),
    case("the same number twice is answered twice", "3.3", """
        A> r=7 s {"c":{}}
        A> r=7 s {"c":{}}
        A< ok
        A< ok
    """),
    case("a hundred pings get a hundred pongs", "2.4", "\n".join(
        ['A> raw {"t":"c","d":{"t":"p","d":{}}}'] * 100 + ['A< raw {"t":"c","d":{"t":"o","d":null}}'] * 100
    )),
    case("an unsigned token in standard Base64 is accepted by --dev", "auth 2.5", """
        A> auth {"cred":"eyJhbGciOiJub25lIn0=.eyJzdWIiOiJib2I/fn5+In0=."}
        A< ok {"auth":{"uid":"bob?~~~","provider":null,"token":{"sub":"bob?~~~"}},"expires":null}
    """),
    case("the stats counter of C++ has characters illegal in keys", "4.1", """
        A> s {"c":{"Firebase/5/1.0/Linux.[x86]$#":1}}
        A< ok
        A sees / null
    """),
    case("stats content is never validated", "4.1", """
        A> s {"c":"anything"}
        A< ok
        A> s {"c":{"a":{"b":[1,2,{"..":null}]}}}
        A< ok
    """),
    case("key order and unknown members of an envelope do not matter", "3.1", r"""
        A> raw {"x":1,"d":{"b":{"extra":[],"d":5,"p":"\/a\/b"},"a":"s","y":null,"r":1},"t":"d"}
        A> raw {"d":{"b":{"c":{}},"z":0,"r":2,"a":"s"},"t":"d"}
        A< raw {"t":"d","d":{"r":1,"b":{"s":"ok","d":""}}}
        A< raw {"t":"d","d":{"r":2,"b":{"s":"ok","d":""}}}
    """),
    case("an escaped slash in a path is a slash", "3.1", r"""
        A> raw {"t":"d","d":{"r":1,"a":"p","b":{"p":"\/a\/b","d":5}}}
        A< raw {"t":"d","d":{"r":1,"b":{"s":"ok","d":""}}}
        B sees /a/b 5
    """),
    case("white space around JSON tokens", "3.1", """
        A> raw  { "t" : "d" , "d" : { "r" : 1 , "a" : "s" , "b" : { "c" : { } } } }
        A< raw {"t":"d","d":{"r":1,"b":{"s":"ok","d":""}}}
    """),
    case("an unknown action is answered and the connection lives", "17.2 #20", """
        A> zz {"p":"/a"}
        A< refused
        A> s {"c":{}}
        A< ok
    """),
    case("unappeck, the typo of JS, is answered", "17.2 #20", """
        A> unappeck {}
        A< ok
    """),
    case("unappcheck of Android is answered", "17.2 #20", """
        A> unappcheck {}
        A< ok
    """),
    case("an App Check token is answered", "4.0", """
        A> appcheck {"token":"abc"}
        A< ok
    """),
    case("unauth answers unauthenticated", "4.0", """
        A> unauth {}
        A< ok "unauthenticated"
    """),
    case("the emulator's credential owner is an admin", "15.8", """
        A> gauth {"cred":"owner"}
        A< ok {"auth":null,"expires":null}
    """),
    case("a credential that is no token is refused", "15.8", """
        A> gauth {"cred":"nonsense"}
        A< refused invalid_token
    """),
    case("an unknown control verb is ignored", "3.2", """
        A> raw {"t":"c","d":{"t":"zz","d":{}}}
        A> s {"c":{}}
        A< ok
    """),
    case("an end of transmission outside an upgrade is ignored", "3.2", """
        A> raw {"t":"c","d":{"t":"n","d":{}}}
        A> s {"c":{}}
        A< ok
    """, over=FRAMES),
    case("an end of transmission without a WebSocket to move to ends a session of long polling", "1.6", """
        B> q {"p":"/s","h":""}
        B< ok {}
        A> o {"p":"/s","d":"gone"}
        A< ok
        A> raw {"t":"c","d":{"t":"n","d":{}}}
        A< closed
        B< d {"p":"s","d":"gone"}
    """, over=POLLS),
    case("path forms of all clients name the same place", "4.0", """
        A> p {"p":"/a/b","d":1}
        A> p {"p":"a/c","d":2}
        A> p {"p":"a//d/","d":3}
        A< ok
        A< ok
        A< ok
        A sees a {"b":1,"c":2,"d":3}
        A sees / {"a":{"b":1,"c":2,"d":3}}
        A> m {"p":"","d":{"e":4}}
        A< ok
        A sees /a/ {"b":1,"c":2,"d":3}
        A sees /e 4
    """),
    case("a path is not percent-decoded", "4.0", """
        A sets /a%2Fb 1
        A sees / {"a%2Fb":1}
    """),
]
