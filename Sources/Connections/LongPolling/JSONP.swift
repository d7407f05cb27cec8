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
