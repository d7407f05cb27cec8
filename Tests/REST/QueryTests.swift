import PandoTree
import Testing

@testable import PandoREST

/// The parameters of a GET against the same query as the realtime protocol spells it.
@Test(
    arguments: [
        // parameters                                          as `q`                                     index
        (#"orderBy="$key""#, #"{"i":".key"}"#, nil),
        (#"orderBy="$priority""#, #"{}"#, nil),
        (#"orderBy="$value""#, #"{"i":".value"}"#, ".value"),
        (#"orderBy="h""#, #"{"i":"h"}"#, "h"),
        (#"orderBy="dim/height""#, #"{"i":"dim/height"}"#, "dim/height"),
        (#"orderBy=%22h%22&limitToFirst=2"#, #"{"i":"h","l":2,"vf":"l"}"#, "h"),
        (#"orderBy="h"&limitToLast=007"#, #"{"i":"h","l":7,"vf":"r"}"#, "h"),
        (#"orderBy="h"&limitToLast=2147483647"#, #"{"i":"h","l":2147483647,"vf":"r"}"#, "h"),
        (#"orderBy="h"&startAt=5"#, #"{"i":"h","sp":5}"#, "h"),
        (#"orderBy="h"&startAt=5.0"#, #"{"i":"h","sp":5}"#, "h"),
        (#"orderBy="h"&startAt=5,"k""#, #"{"i":"h","sp":5,"sn":"k"}"#, "h"),
        (#"orderBy="h"&startAfter=5"#, #"{"i":"h","sp":5,"sn":"[MAX_NAME]","sin":false}"#, "h"),
        (#"orderBy="h"&startAfter=5,"k""#, #"{"i":"h","sp":5,"sn":"k","sin":false}"#, "h"),
        (#"orderBy="h"&endAt="a+b""#, #"{"i":"h","ep":"a b"}"#, "h"),
        (#"orderBy="h"&endAt="a%2Bb""#, #"{"i":"h","ep":"a+b"}"#, "h"),
        (#"orderBy="h"&endBefore=true"#, #"{"i":"h","ep":true,"en":"[MIN_NAME]","ein":false}"#, "h"),
        (#"orderBy="h"&endBefore=true,"k""#, #"{"i":"h","ep":true,"en":"k","ein":false}"#, "h"),
        (#"orderBy="h"&startAt=1&endAt=9,"z""#, #"{"i":"h","sp":1,"ep":9,"en":"z"}"#, "h"),
        (#"orderBy="h"&equalTo=null"#, #"{"i":"h","sp":null,"ep":null}"#, "h"),
        (#"orderBy="h"&equalTo=1,"k""#, #"{"i":"h","sp":1,"sn":"k","ep":1,"en":"k"}"#, "h"),
        (#"orderBy="$key"&equalTo="a""#, #"{"i":".key","sp":"a","ep":"a"}"#, nil),
        (
            #"orderBy="$key"&startAfter="a"&limitToFirst=3"#,
            #"{"i":".key","sp":"a","sin":false,"l":3,"vf":"l"}"#, nil
        ),
        (#"orderBy="$key"&endBefore="[MAX_NAME]""#, #"{"i":".key","ep":"[MAX_NAME]","ein":false}"#, nil),
        // What the official CLI pages with: a bare key, and no `orderBy`.
        (
            #"shallow=true&limitToFirst=3&startAfter=a+b&timeout=40000ms"#,
            #"{"i":".key","sp":"a b","sin":false,"l":3,"vf":"l"}"#, nil
        ),
        (#"shallow=true&limitToFirst=1"#, #"{"i":".key","l":1,"vf":"l"}"#, nil),
    ] as [(String, String, String?)])
func parametersAreAQuery(parameters: String, spelled: String, index: String?) throws {
    let request = try request("GET", "/pub.json?\(parameters)")
    #expect(request.query == (try query(spelled)))
    #expect(request.indexName == index)
}

@Test func withoutParametersThereIsNoQuery() throws {
    for target in ["/a.json", "/a.json?", "/a.json?shallow=true", "/a.json?print=pretty&x=y&auth=z"] {
        #expect(try request("GET", target).query == nil)
    }
    // Only reads have one.
    #expect(try request("PUT", "/a.json?orderBy=bad").query == nil)
}

/// The table of rest §4.2.
@Test(arguments: [
    ("limitToFirst=2", "orderBy must be defined when other query parameters are defined"),
    ("limitToLast=2", "orderBy must be defined when other query parameters are defined"),
    ("startAt=2", "orderBy must be defined when other query parameters are defined"),
    ("startAfter=2", "orderBy must be defined when other query parameters are defined"),
    ("endAt=2", "orderBy must be defined when other query parameters are defined"),
    ("endBefore=2", "orderBy must be defined when other query parameters are defined"),
    ("equalTo=2", "orderBy must be defined when other query parameters are defined"),
    ("orderBy=h", "orderBy must be a valid JSON encoded path"),
    ("orderBy=", "orderBy must be a valid JSON encoded path"),
    ("orderBy", "orderBy must be a valid JSON encoded path"),
    ("orderBy=5", "orderBy must be a valid JSON encoded path"),
    (#"orderBy="""#, "orderBy must be a valid JSON encoded path"),
    (#"orderBy="/""#, "orderBy must be a valid JSON encoded path"),
    (#"orderBy="$foo""#, "orderBy must be a valid JSON encoded path"),
    (#"orderBy=".value""#, "orderBy must be a valid JSON encoded path"),
    (#"orderBy="a.b""#, "orderBy must be a valid JSON encoded path"),
    (#"orderBy="a","b""#, "orderBy must be a valid JSON encoded path"),
    (#"orderBy="a"x"#, "orderBy must be a valid JSON encoded path"),
    (#"orderBy="\ud800""#, "orderBy must be a valid JSON encoded path"),
    (#"orderBy="a"&orderBy="a""#, "orderBy must be a valid JSON encoded path"),
    (
        #"orderBy="h"&limitToFirst=1&limitToLast=1"#,
        "Only one of limitToFirst and limitToLast may be specified"
    ),
    (#"orderBy="h"&limitToFirst=x"#, "limitToFirst must be an integer"),
    (#"orderBy="h"&limitToLast=1.0"#, "limitToLast must be an integer"),
    (#"orderBy="h"&limitToLast=1e3"#, "limitToLast must be an integer"),
    (#"orderBy="h"&limitToLast=-"#, "limitToLast must be an integer"),
    (#"orderBy="h"&limitToFirst=2147483648"#, "limitToFirst must be an integer"),
    (#"orderBy="h"&limitToFirst=99999999999999999999"#, "limitToFirst must be an integer"),
    (#"orderBy="h"&limitToLast=99999999999999999999"#, "limitToLast must be an integer"),
    ("shallow=true&limitToFirst=99999999999999999999", "limitToFirst must be an integer"),
    (#"orderBy="h"&limitToLast="5""#, "limitToLast must be an integer"),
    (#"orderBy="$key"&limitToFirst=0"#, "limitToFirst must be positive"),
    (#"orderBy="h"&limitToFirst=-1"#, "limitToFirst must be positive"),
    (#"orderBy="h"&limitToLast=-99999999999999999999"#, "limitToLast must be positive"),
    (#"orderBy="h"&limitToFirst="#, "limitToFirst must be positive"),
    (
        #"orderBy="$key"&equalTo="a"&startAt="a""#,
        "equalTo cannot be specified in addition to startAfter, startAt, endAt, or endBefore"
    ),
    (
        #"orderBy="h"&equalTo=1&endBefore=1"#,
        "equalTo cannot be specified in addition to startAfter, startAt, endAt, or endBefore"
    ),
    (#"orderBy="h"&equalTo={}"#, "Constraint index field must be a JSON primitive"),
    (#"orderBy="h"&startAt=[1]"#, "Constraint index field must be a JSON primitive"),
    (#"orderBy="h"&endAt=abc"#, "Constraint index field must be a JSON primitive"),
    (#"orderBy="h"&endAt="#, "Constraint index field must be a JSON primitive"),
    (#"orderBy="h"&endAt=1,2"#, "Constraint index field must be a JSON primitive"),
    (#"orderBy="h"&endAt=1e999"#, "Constraint index field must be a JSON primitive"),
    (#"orderBy="$key"&startAt=5"#, "Provided key index type is invalid, must be string"),
    (#"orderBy="$key"&equalTo=null"#, "Provided key index type is invalid, must be string"),
    (#"orderBy="h"&startAt=1&startAfter=1"#, "Only one of startAt and startAfter may be specified"),
    (#"orderBy="h"&endAt=1&endBefore=1"#, "Only one of endAt and endBefore may be specified"),
    // §4.1
    (#"shallow=true&orderBy="h""#, RESTError.shallowWithQuery.text),
    ("shallow=true&equalTo=1", RESTError.shallowWithQuery.text),
    ("shallow=true&startAt=1", RESTError.shallowWithQuery.text),
    ("shallow=true&endAt=1", RESTError.shallowWithQuery.text),
    ("shallow=true&endBefore=1", RESTError.shallowWithQuery.text),
    ("shallow=true&limitToLast=1", RESTError.shallowWithQuery.text),
    ("shallow=true&format=export", RESTError.shallowWithQuery.text),
    ("shallow=true&limitToFirst=0", "limitToFirst must be positive"),
])
func queryMisuse(parameters: String, text: String) throws {
    for method in ["GET", "HEAD"] {
        let refusal = try refusal(method, "/pub.json?\(parameters)")
        #expect(refusal?.text == text)
        #expect(refusal?.status == .badRequest)
    }
}

@Test func indexErrorNamesIndexAndPath() throws {
    let byChild = try request("GET", #"/dinos.json?orderBy="height""#)
    #expect(
        byChild.missingIndex(at: "dinos").text
            == #"Index not defined, add ".indexOn": "height", for path "/dinos", to the rules"#)
    let byValue = try request("GET", #"/.json?orderBy="$value""#)
    #expect(
        byValue.missingIndex(at: .root).text
            == #"Index not defined, add ".indexOn": ".value", for path "/", to the rules"#)
}
