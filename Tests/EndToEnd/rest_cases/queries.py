"""Which children a query selects (§5)."""

import json

from exchange import row

RULES = 'rules {"rules":{".read":true,".write":true,"q":{".indexOn":["n","d/e",".value"]}}}'
# One child of every kind, in the total order of 5.2; `none` lacks the child path.
MIXED = (
    '{"none":{"x":1},"f":{"n":false},"t":{"n":true},"m1":{"n":-1},"one":{"n":1},"two":{"n":2.5},'
    '"sa":{"n":"a"},"sb":{"n":"b"},"o":{"n":{"y":1}}}'
)
ORDERED = "none f t m1 one two sa sb o".split()
VALUES = '{"a":3,"b":1,"c":"x","d":true,"e":1}'


def selects(query, *keys, data=MIXED, section="5.3"):
    """The query at /q selects these children of the data, whole and in key order."""
    whole = json.loads(data)
    wanted = json.dumps({key: whole[key] for key in keys}) if keys else "null"
    return row(f"{query} selects {' '.join(keys) or 'nothing'}", section, f"""
        {RULES}
        given /q {data}
        GET /q.json?{query}
        < 200 like {wanted}
    """)


N, V, K, P = 'orderBy="n"', 'orderBy="$value"', 'orderBy="$key"', 'orderBy="$priority"'
PRIORITIES = (
    '{"a":{".value":1,".priority":3},"b":{".value":2,".priority":"x"},"c":3,"d":{".value":4,".priority":1}}'
)


def by_priority(query, answer):
    return row(f"{query} selects {answer}", "5.1", f"""
        {RULES}
        given /q {PRIORITIES}
        GET /q.json?{P}{query}
        < 200 like {answer}
    """)


ROWS = [selects(f"{N}&limitToFirst={count}", *ORDERED[:count], section="5.2") for count in range(1, 10)] + [
    selects(f"{N}&limitToLast={count}", *ORDERED[-count:], section="5.2") for count in range(1, 10)
] + [
    selects(N, *ORDERED),
    selects(f"{N}&limitToFirst=1000", *ORDERED),
    selects(f"{N}&startAt=1", "one", "two", "sa", "sb", "o"),
    selects(f"{N}&startAfter=1", "two", "sa", "sb", "o"),
    selects(f"{N}&endAt=1", "none", "f", "t", "m1", "one"),
    selects(f"{N}&endBefore=1", "none", "f", "t", "m1"),
    selects(f"{N}&startAt=1&endAt=2.5", "one", "two"),
    selects(f"{N}&startAfter=1&endBefore=2.5"),
    selects(f"{N}&startAt=2&endAt=1"),
    selects(f'{N}&startAt="a"&endAt="a"', "sa"),
    selects(f'{N}&startAt="aa"', "sb", "o"),
    selects(f"{N}&startAt=true&limitToFirst=2", "t", "m1"),
    selects(f"{N}&startAt=1&limitToLast=2", "sb", "o"),
    selects(f'{N}&endAt="b"&limitToLast=2', "sa", "sb"),
    selects(f"{N}&equalTo=1", "one"),
    selects(f"{N}&equalTo=1.0", "one"),
    selects(f'{N}&equalTo="1"'),
    selects(f"{N}&equalTo=true", "t"),
    selects(f"{N}&equalTo=null", "none"),
    selects(f'{N}&startAt=5,"k"', "sa", "sb", "o"),
    selects('orderBy="d/e"&equalTo=2', "b", data='{"a":{"d":{"e":1}},"b":{"d":{"e":2}},"c":{"d":2}}'),
    selects(f"{N}&startAt=-1&endAt=-1", "m1"),
    selects(f"{V}&limitToFirst=2", "d", "b", data=VALUES),
    selects(f"{V}&limitToLast=2", "a", "c", data=VALUES),
    selects(f"{V}&equalTo=1", "b", "e", data=VALUES),
    selects(f'{V}&startAt=1,"c"&endAt=3', "a", "e", data=VALUES),
    selects(f'{V}&startAfter=1,"b"&endAt=3', "a", "e", data=VALUES),
    selects(f'{V}&endAt=1,"b"', "b", "d", data=VALUES),
    selects(f'{V}&endBefore=1,"e"', "b", "d", data=VALUES),
    selects(f'{V}&equalTo=1,"e"', "e", data=VALUES),
    selects(f'{K}&startAt="b"&endAt="d"', "b", "c", "d", data=VALUES),
    selects(f'{K}&startAfter="b"&endBefore="d"', "c", data=VALUES),
    selects(f'{K}&equalTo="c"', "c", data=VALUES),
    selects(f"{K}&limitToLast=2", "d", "e", data=VALUES),
    selects(f'{K}&startAt="9"', "9", "10", "x", data='{"2":1,"9":2,"10":3,"x":4}'),
    selects(f'{K}&endBefore="10"&startAt="5"', "9", data='{"2":1,"9":2,"10":3,"x":4}'),
    by_priority("&limitToFirst=2", '{"c":3,"d":4}'),
    by_priority("&limitToLast=1", '{"b":2}'),
    by_priority("&startAt=1&endAt=3", '{"a":1,"d":4}'),
    by_priority('&equalTo="x"', '{"b":2}'),
    by_priority("&limitToLast=2&format=export",
                '{"a":{".value":1,".priority":3},"b":{".value":2,".priority":"x"}}'),
    row("orderBy alone on a primitive answers it, a limit or a range nothing", "5.3", f"""
        {RULES}
        given /q "x"
        GET /q.json?{K}
        < 200 "x"
        GET /q.json?{K}&limitToFirst=1
        < 200 null
        GET /q.json?{K}&startAt="a"
        < 200 null
    """),
    row("rules see an order by priority, also alone", "rules 3.2", """
        rules {"rules":{".write":true,"q":{".read":"query.orderByPriority"}}}
        given /q {"a":1}
        GET /q.json?orderBy="$priority"
        < 200 {"a":1}
        GET /q.json?orderBy="$priority"&limitToFirst=1
        < 200 {"a":1}
        GET /q.json?orderBy="$key"
        < 401 error Permission denied
        GET /q.json
        < 401 error Permission denied
    """),
    row("a query of nothing is null", "5.3", f"""
        {RULES}
        GET /q.json?{N}&limitToFirst=1
        < 200 null
    """),
    row("a query's answer comes in key order, not in its own", "3", f"""
        {RULES}
        given /q {VALUES}
        GET /q.json?{V}
        < 200 {VALUES}
    """),
    row("the quotes of a query may be escaped", "1.1", f"""
        {RULES}
        given /q {VALUES}
        GET /q.json?orderBy=%22%24value%22&equalTo=%22x%22
        < 200 {{"c":"x"}}
    """),
    row("a query through an index that rules give by a wildcard", "5.1", """
        rules {"rules":{".read":true,".write":true,"$any":{".indexOn":"n"}}}
        given /z {"a":{"n":2},"b":{"n":1}}
        GET /z.json?orderBy="n"&limitToFirst=1
        < 200 {"b":{"n":1}}
    """),
]
