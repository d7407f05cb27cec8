"""Rules, settings and the emulator's endpoints (§10)."""

from exchange import row
from rest_client import OWNER, Rest, compact

COMMENTED = '// line\n{ /* a */ "rules" : {\n\t"a" : { ".read":true }, // b\n\t"é":{".write" : false}\n} }\n'


def rules_verbatim(world):
    rest = Rest(world.port, world.ns)
    rest.put_rules(COMMENTED)
    for fields, query in [([OWNER], ""), ([], "?access_token=owner")]:
        rest.ask("GET", f"/.settings/rules.json{query}", fields=fields).expect(200, COMMENTED)
    strict = rest.ask("GET", "/.settings/rules.json?format=strict", fields=[OWNER]).expect(200)
    assert strict.json() == {"rules": {"a": {".read": True}, "é": {".write": False}}}, strict
    other = Rest(world.port, f"{world.ns}-other").ask("GET", "/.settings/rules.json", fields=[OWNER])
    assert other.body != COMMENTED.encode(), "rules belong to one database"


def loaded_rules_are_enforced(world):
    """Rules are open only while none are loaded; what is loaded last is what counts."""
    rest = Rest(world.port, world.ns)
    rest.put("/a", 1)
    rest.put_rules({"rules": {"b": {".read": True}}})
    rest.ask("GET", "/a.json").expect_error(401, "Permission denied")
    rest.ask("GET", "/b.json").expect(200, "null")
    rest.put_rules({"rules": {"a": {".read": True}}})
    rest.ask("GET", "/a.json").expect(200, "1")
    rest.ask("GET", "/b.json").expect_error(401, "Permission denied")


def rules_survive_a_kill(world):
    rest = Rest(world.port, world.ns)
    rest.put_rules(COMMENTED)
    world.server.restart()
    rest = Rest(world.server.port, world.ns)
    rest.ask("GET", "/.settings/rules.json", fields=[OWNER]).expect(200, COMMENTED)
    rest.ask("GET", "/a.json").expect(200, "null")
    rest.ask("GET", "/b.json").expect_error(401, "Permission denied")


FORM = ("Content-Type", "multipart/form-data; boundary=----Form7")


def form(text, name="data.json"):
    """What a page sends that appends a file to a FormData."""
    head = f'Content-Disposition: form-data; name="myFile"; filename="{name}"\r\nContent-Type: application/json'
    return f"------Form7\r\n{head}\r\n\r\n{text}\r\n------Form7--\r\n"


def uploads(world):
    """The Emulator UI's import: a PUT of a file, with its checks (rest §10)."""
    rest = Rest(world.port, world.ns)
    rest.put("/a", {"old": 1})
    query = "access_token=owner&writeSizeLimit=unlimited"
    rest.ask("POST", f"/a/.upload?{query}", form('{"b":1}'), [FORM]).expect(200, '{"b":1}')
    rest.ask("POST", f"/.upload?{query}", form('{"c":{"d":[1,2]}}'), [FORM]).expect(200)
    assert rest.get("/") == {"c": {"d": [1, 2]}}
    rest.put_rules({"rules": {"open": {".read": True, ".write": True, ".validate": "newData.isString()"}}})
    rest.ask("POST", "/a/.upload", form("1"), [FORM]).expect_error(401, "Permission denied")
    rest.ask("POST", "/open/.upload", form("1"), [FORM]).expect_error(401, "Permission denied")
    rest.ask("POST", "/open/.upload", form('"x"'), [FORM]).expect(200, '"x"')
    rest.ask("POST", "/open/.upload?access_token=garbage", form("1"), [FORM]).expect_error(401)
    refusal = "Invalid data; the body must be multipart/form-data with a file of JSON."
    for body, fields, text in [
        ("1", [FORM], refusal), (form("1"), [], refusal), (form("1")[:-20], [FORM], refusal),
        (form("{bad"), [FORM], "Invalid data; couldn't parse JSON object, array, or value."),
        (form(""), [FORM], "Error: No data supplied."),
    ]:
        rest.ask("POST", f"/a/.upload?{query}", body, fields).expect_error(400, text)
    rest.ask("POST", f"/a/.upload?{query.replace('unlimited', 'tiny')}", form(f'"{"x" * 5_000_000}"'), [FORM]).expect_error(400)
    big = {f"key{number:06d}": "x" * 1000 for number in range(3000)}  # 3 MB: parsed by another thread
    rest.ask("POST", f"/a/.upload?{query}&print=silent", form(compact(big)), [FORM]).expect(204)
    assert rest.ask("GET", "/a.json", fields=[OWNER]).json() == big
    for method in ("GET", "PUT", "DELETE"):
        rest.ask(method, f"/a/.upload?{query}", "1", [FORM]).expect_error(404)


ROWS = [
    row("--dev takes an uploaded file", "10", uploads),
    row("without --dev no file is taken", "10", """
        POST /a/.upload 1 | Content-Type: multipart/form-data; boundary=b
        < 404 error append .json to your request URI to use the REST API.
    """, mode="locked"),
    row("rules come back verbatim, and strict without comments", "10", rules_verbatim),
    row("loaded rules are enforced at once, even by --dev", "10", loaded_rules_are_enforced),
    row("loaded rules survive kill -9", "10", rules_survive_a_kill),
    row("a dry run changes nothing", "10", """
        rules {"rules":{"a":{".read":true}}}
        PUT /.settings/rules.json?dryRun=true {"rules":{}} | Authorization: <owner>
        < 200 {"status":"ok"}
        GET /.settings/rules.json | Authorization: <owner>
        < 200 {"rules":{"a":{".read":true}}}
        PUT /.settings/rules.json?dryRun=true {} | Authorization: <owner>
        < 400 error
        GET /a.json
        < 200 null
    """),
    row("bad rules change nothing", "10", """
        rules {"rules":{"a":{".read":true}}}
        PUT /.settings/rules.json {"rules":{ | Authorization: <owner>
        < 400 error
        PUT /.settings/rules.json {"rules":{".read":17}} | Authorization: <owner>
        < 400 error
        GET /.settings/rules.json | Authorization: <owner>
        < 200 {"rules":{"a":{".read":true}}}
    """),
    row("rules that are no JSON object are a parse error", "10", """
        PUT /.settings/rules.json invalid json %{!@[ | Authorization: <owner>
        < 400 exactly "{\\n  \\"error\\" : \\"1:1: Parse error.\\\\n\\"\\n}\\n"
        PUT /.settings/rules.json 5 | Authorization: <owner>
        < 400 exactly "{\\n  \\"error\\" : \\"1:1: Parse error.\\\\n\\"\\n}\\n"
        PUT /.settings/rules.json {rules: {}} | Authorization: <owner>
        < 400 exactly "{\\n  \\"error\\" : \\"1:2: Parse error.\\\\n\\"\\n}\\n"
        PUT /.settings/rules.json {"rules": x} | Authorization: <owner>
        < 400 exactly "{\\n  \\"error\\" : \\"1:11: Parse error.\\\\n\\"\\n}\\n"
        PUT /.settings/rules.json {"rules": 5} | Authorization: <owner>
        < 400 exactly "{\\n  \\"error\\" : \\"1:11: Expected '{'.\\\\n\\"\\n}\\n"
    """),
    row("only an administrator sees settings", "10", """
        GET /.settings/rules.json
        < 401 error
        PUT /.settings/rules.json {"rules":{}}
        < 401 error
        GET /.settings/defaultWriteSizeLimit.json
        < 401 error
        PUT /.settings/defaultWriteSizeLimit.json "tiny"
        < 401 error
    """),
    row("the default write size limit is kept", "10", """
        GET /.settings/defaultWriteSizeLimit.json | Authorization: <owner>
        < 200 "large"
        PUT /.settings/defaultWriteSizeLimit.json "medium" | Authorization: <owner>
        < 200
        GET /.settings/defaultWriteSizeLimit.json | Authorization: <owner>
        < 200 "medium"
        PUT /.settings/defaultWriteSizeLimit.json "gigantic" | Authorization: <owner>
        < 400 error
        GET /.settings/defaultWriteSizeLimit.json | Authorization: <owner>
        < 200 "medium"
    """),
    row("strict trigger validation is kept", "10", """
        PUT /.settings/strictTriggerValidation.json true | Authorization: <owner>
        < 200
        GET /.settings/strictTriggerValidation.json | Authorization: <owner>
        < 200 {"value":true}
    """),
    row("function triggers are accepted and ignored", "10", """
        PUT /.settings/functionTriggers.json {"triggers":[]} | Authorization: <owner>
        < 200 {}
        POST /.settings/functionTriggers.json {"triggers":[]} | Authorization: <owner>
        < 200 {}
        POST /.settings/functionTriggers.json {"triggers":[] | Authorization: <owner>
        < 400 error
        POST /.settings/functionTriggers.json {"triggers":[]}
        < 401 error
        DELETE /.settings/functionTriggers.json | Authorization: <owner>
        < 405 error
        < Allow: GET, HEAD, PUT, POST, OPTIONS
        POST /.settings/strictTriggerValidation.json true | Authorization: <owner>
        < 405 error
        < Allow: GET, HEAD, PUT, OPTIONS
    """),
    row("the emulator's list of databases names this one", "10", """
        given /a 1
        GET /.inspect/databases.json | Authorization: <owner>
        < 200 matches \\[.*\\{"name":"case-[0-9]+"\\}.*\\]
    """),
    row("under --dev everybody may have the names of the databases, whatever the rules", "10", """
        rules {"rules":{}}
        GET /.inspect/databases.json
        < 200 matches \\[.*\\{"name":"case-[0-9]+"\\}.*\\]
        GET /.inspect/databases.json | Authorization: Bearer garbage
        < 401 error
        GET /.inspect/denials.json
        < 401 error
    """),
    row("without --dev they are an administrator's", "10", """
        GET /.inspect/databases.json
        < 401 error Unauthorized request.
    """, mode="locked"),
    row("settings are no data", "1.1", """
        given / {"a":1}
        GET /.json
        < 200 {"a":1}
    """),
]
