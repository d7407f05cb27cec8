"""What is stored for what was written: arrays, priorities, pruning, numbers (§8.1–8.5)."""

from transcript import case


def stores(name, written, read, section="8.2"):
    """`written` (JSON text, put at /a) is read back, and pushed, as `read`."""
    push = "A< nothing" if read == "null" else f'A< d {{"p":"a","d":{read}}}'
    return case(name, section, f"""
        A> q {{"p":"/a","h":""}}
        A< ok {{}}
        W> raw {{"t":"d","d":{{"r":1,"a":"p","b":{{"p":"/a","d":{written}}}}}}}
        W< raw {{"t":"d","d":{{"r":1,"b":{{"s":"ok","d":""}}}}}}
        {push}
        B sees /a {read}
    """)


CASES = [
    stores("an empty object is nothing", "{}", "null"),
    stores("an empty array is nothing", "[]", "null"),
    stores("nested empty things are nothing", '{"b":{"c":{},"d":[]},"e":null}', "null"),
    stores("a priority on nothing is nothing", '{".priority":1}', "null"),
    stores("a priority on pruned children is nothing", '{"b":{},".priority":1}', "null"),
    stores("true", "true", "true"),
    stores("false", "false", "false"),
    stores("an empty string is a value", '""', '""'),
    stores("a string with every escape", r'"\"\\\/\b\f\n\r\t\u0041\u00e9\ud83d\udc35"', r'"\"\\/\b\f\n\r\tAé🐵"'),
    stores("a string with a NUL and control characters", r'"a\u0000b\u001f\u007f"', r'"a\u0000b\u001f\u007f"'),
    stores("noncharacters in a string", r'"\uffff\ufffe\ufdd0"', r'"\uffff\ufffe\ufdd0"'),
    stores("line and paragraph separators", r'"\u2028\u2029"', r'"\u2028\u2029"'),
    stores("an array becomes an object", '["a","b","c"]', '{"0":"a","1":"b","2":"c"}'),
    stores("holes of an array are skipped", '[1,null,3]', '{"0":1,"2":3}'),
    stores("nested arrays", '[[1],[[]],{"x":[2]}]', '{"0":{"0":1},"2":{"x":{"0":2}}}'),
    stores("null children are pruned, siblings stay", '{"b":null,"c":1,"d":{"e":null}}', '{"c":1}'),
    stores("a leaf with a numeric priority", '{".value":"v",".priority":1}', '{".value":"v",".priority":1}'),
    stores("a leaf with a string priority", '{".value":false,".priority":"p"}', '{".value":false,".priority":"p"}'),
    stores("a fractional priority", '{".value":1,".priority":2.5}', '{".value":1,".priority":2.5}'),
    stores("an empty string is a priority", '{".value":1,".priority":""}', '{".value":1,".priority":""}'),
    stores("a zero priority is a priority", '{".value":1,".priority":0}', '{".value":1,".priority":0}'),
    stores("a null priority is none", '{".value":1,".priority":null}', "1"),
    stores("a value without a priority unwraps", '{".value":"v"}', '"v"'),
    stores("a null value is as if absent", '{".value":null,"x":1}', '{"x":1}'),
    stores("a null value with a priority is nothing", '{".value":null,".priority":3}', "null"),
    stores("an object with a priority", '{"x":1,".priority":"p"}', '{"x":1,".priority":"p"}'),
    stores("priorities at every level", '{"x":{"y":{".value":1,".priority":3},".priority":2},".priority":1}',
           '{"x":{"y":{".value":1,".priority":3},".priority":2},".priority":1}'),
    stores("an array element with a priority", '[{".value":"a",".priority":1}]', '{"0":{".value":"a",".priority":1}}'),
    stores("unicode keys", '{"ключ 漢字":{"é":"🐵✔"}}', '{"ключ 漢字":{"é":"🐵✔"}}'),
    stores("no Unicode normalisation of keys", r'{"\u00e9":1,"e\u0301":2}', r'{"\u00e9":1,"e\u0301":2}'),
    stores("a space and punctuation are good keys", '{" ":1,"a b":2,"!@%^&*()+=~`\'\\";:<>?,|\\\\":3}',
           '{" ":1,"a b":2,"!@%^&*()+=~`\'\\";:<>?,|\\\\":3}'),
    stores("an integer", "5", "5", "8.5"),
    stores("a negative integer", "-3", "-3", "8.5"),
    stores("an integral double is an integer", "5.0", "5", "8.5"),
    stores("an exponent that is integral is an integer", "1e3", "1000", "8.5"),
    stores("a fraction keeps its shortest digits", "0.1", "0.1", "8.5"),
    stores("a long fraction round-trips", "0.30000000000000004", "0.30000000000000004", "8.5"),
    stores("minus zero is zero", "-0", "0", "8.5"),
    stores("minus zero as a double is zero", "-0.0", "0", "8.5"),
    stores("2^53+1 keeps its last digit", "9007199254740993", "9007199254740993", "8.5"),
    stores("the largest 64-bit integer", "9223372036854775807", "9223372036854775807", "8.5"),
    stores("the smallest 64-bit integer", "-9223372036854775808", "-9223372036854775808", "8.5"),
    stores("2^63 is a double", "9223372036854775808", "9223372036854775808.0", "8.5"),
    stores("1e21 is a double", "1e21", "1e21", "8.5"),
    stores("an integer of thirty digits is a double", "123456789012345678901234567890", "1.2345678901234568e29", "8.5"),
    stores("the largest double", "1.7976931348623157e308", "1.7976931348623157e308", "8.5"),
    stores("the smallest double", "5e-324", "5e-324", "8.5"),
    stores("an underflow is zero", "1e-400", "0", "8.5"),
    stores("a number with a capital exponent and sign", "1.5E+2", "150", "8.5"),
    case("a value beside children: the value wins, or the write is refused", "8.2", lambda world: value_and_children(world)),
]


def value_and_children(world):
    """`.value` wins if it arrives beside children; refusing what no client sends is no harm."""
    connection = world.connect()
    answer = connection.ask("p", {"p": "/a", "d": {".value": 1, "x": 2}})
    assert connection.get("/a") == (1 if answer["s"] == "ok" else None)
