import PandoBytes

// What long polling answers (realtime §1.5): scripts that call functions of the page. Data goes into
// them as JSON, and nothing that a client chose but digits.

extension [UInt8] {
    /// Appends the script that answers a session's start: the functions that all later answers call, and what
    /// names the session in later requests.
    /// - Parameters:
    ///   - callback: The digits behind the names of the page's functions; perhaps none.
    ///   - id: Decimal digits.
    ///   - password: Letters and digits.
    package mutating func append(startScript callback: [UInt8], id: UInt64, password: [UInt8]) {
        append("function pLPCommand(c,a,b){var f=parent.window[\"pLPCommand" as StaticString)
        append(contentsOf: callback)
        append("\"];if(f)f(c,a,b);}\nfunction pRTLPCB(n,m){var f=parent.window[\"pRTLPCB" as StaticString)
        append(contentsOf: callback)
        append("\"];if(f)f(n,m);}\npLPCommand('start','" as StaticString)
        append(decimal: id)
        append("','" as StaticString)
        append(contentsOf: password)
        append("');\n" as StaticString)
    }

    /// Appends the beginning of the call that delivers response `number`. Messages follow, with commas
    /// between them, escaped by ``ScriptEscaper``, and ``appendResponseEnd()``.
    package mutating func append(responseBegin number: Int) {
        append("pRTLPCB(" as StaticString)
        append(decimal: Int64(number))
        append(",[" as StaticString)
    }

    package mutating func appendResponseEnd() {
        append("]);\n" as StaticString)
    }

    /// Appends the end of the session.
    /// - Parameter number: The response behind which it ends; nil for at once. The client takes 0 for at
    ///   once.
    package mutating func append(closeCommand number: Int?) {
        guard let number, number > 0 else { return append("pLPCommand('close');\n" as StaticString) }
        append("pLPCommand('close'," as StaticString)
        append(decimal: Int64(number))
        append(");\n" as StaticString)
    }

    /// Appends the page that a client loads beside its polls: when the browser leaves the client's page, it
    /// says so. The request is one that outlives the page, where browsers have it; else it holds the page up
    /// until it is answered.
    package mutating func append(disconnectPage id: UInt64, password: [UInt8]) {
        append(
            "<!DOCTYPE html><html><head><meta charset=\"utf-8\"><script>\nvar url='/.lp?disconn=t&id="
                as StaticString)
        append(decimal: id)
        append("&pw=" as StaticString)
        append(contentsOf: password)
        append(
            """
            ',done=false;
            function leave(){
              if(done)return;done=true;
              try{
                if(window.fetch&&'keepalive' in Request.prototype)fetch(url,{keepalive:true});
                else{var x=new XMLHttpRequest();x.open('GET',url,false);x.send();}
              }catch(e){}
            }
            window.addEventListener('pagehide',leave);window.addEventListener('unload',leave);
            </script></head><body></body></html>

            """ as StaticString)
    }
}

/// Writes a message's JSON as JavaScript; the parts of one message come one after the other, cut between
/// characters. What is one thing in JSON and another in a script:
///
/// - U+2028 and U+2029 may stand in strings; before ECMAScript 2019 they end a line there.
/// - A member `"__proto__":` of an object literal sets the object's prototype; `["__proto__"]:` is a member.
package struct ScriptEscaper {
    /// Of what was appended last, the bytes that the next part may still change.
    package static let openByteCount = prototypeMember.count - 1
    /// As the server writes a member of that name.
    private static let prototypeMember = Array("\"__proto__\":".utf8)

    /// Bytes of ``prototypeMember`` that the last bytes are.
    private var matchedCount = 0
    private var isBehindBackslash = false

    /// Appends the next part of a message.
    /// - Complexity: O(bytes).
    package mutating func escape(_ json: RawSpan, into script: inout [UInt8]) {
        var (matchedCount, isBehindBackslash) = (matchedCount, isBehindBackslash)
        withCursor(over: json) { cursor in
            var start = 0
            while !cursor.isAtEnd {
                let byte = cursor.current
                if matchedCount > 0 {
                    guard byte == Self.prototypeMember[matchedCount] else {
                        // This byte may begin another.
                        matchedCount = 0
                        isBehindBackslash = false
                        continue
                    }
                    matchedCount += 1
                    if matchedCount == Self.prototypeMember.count {
                        script.append(json.extracting(start..<cursor.offset))
                        // In bounds: the name, which holds nothing that is escaped, was the last to be
                        // appended.
                        script.insert(UInt8(ascii: "["), at: script.count - (matchedCount - 1))
                        script.append(UInt8(ascii: "]"))
                        start = cursor.offset
                        matchedCount = 0
                        isBehindBackslash = false
                    }
                } else if byte == UInt8(ascii: "\"") {
                    // In a string a quotation mark stands behind a backslash, and a string that ends is
                    // followed by no letter.
                    matchedCount = isBehindBackslash ? 0 : 1
                    isBehindBackslash = false
                } else if byte == 0xE2, cursor.remaining >= 3, cursor.peek(1) == 0x80,
                    cursor.peek(2) & 0xFE == 0xA8
                {
                    script.append(json.extracting(start..<cursor.offset))
                    script.append(cursor.peek(2) == 0xA8 ? "\\u2028" : "\\u2029" as StaticString)
                    cursor.advance(3)
                    start = cursor.offset
                    isBehindBackslash = false
                    continue
                } else {
                    isBehindBackslash = byte == UInt8(ascii: "\\")
                }
                cursor.advance()
            }
            script.append(json.extracting(start..<json.byteCount))
        }
        (self.matchedCount, self.isBehindBackslash) = (matchedCount, isBehindBackslash)
    }
}
