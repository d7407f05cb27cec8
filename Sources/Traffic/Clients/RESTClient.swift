import PandoBytes
import PandoHTTP
import PandoReactor

/// The REST interface: requests on one HTTP/1.1 connection that is kept.
final class RESTClient: StreamClient {
    private var responses = ResponseReader()
    private let putting = StampedRequest()

    override func opened() {
        responses = ResponseReader()
        up()
    }

    override func set(_ path: @autoclosure () -> String, place: Int, _ request: Pending) {
        if !putting.fits(place: place) { makePut(path(), place: place) }
        pending.append((0, request))
        putting.with(request) { write($0) }
    }

    private func makePut(_ path: String, place: Int) {
        var value = [UInt8(ascii: #"""#)]
        Stamp.append(0, time: 0, byteCount: context.plan.size, to: &value)
        value.append(UInt8(ascii: #"""#))
        let output = self.request("PUT", path, value)
        putting.become(output, place: place, stampOffset: output.count - value.count + 1)
    }

    override func fetch(_ path: String, _ request: Pending) { send("GET", path, request) }

    override func remove(_ path: String, _ request: Pending) { send("DELETE", path, request) }

    private func send(_ method: StaticString, _ path: String, _ request: Pending) {
        pending.append((0, request))
        write(self.request(method, path, nil).rawSpan)
    }

    private func request(_ method: StaticString, _ path: String, _ value: [UInt8]?) -> [UInt8] {
        var output: [UInt8] = []
        output.append(requestLine: method, target: "/\(path).json?ns=\(context.plan.namespace)")
        output.append(field: "Host", text: context.plan.target.host)
        if let token = context.plan.token { output.append(field: "Authorization", text: "Bearer \(token)") }
        if let value { output.append(field: "Content-Length", decimal: UInt64(value.count)) }
        output.appendEndOfHead()
        if let value { output.append(contentsOf: value) }
        return output
    }

    override func read(_ bytes: RawSpan) -> Int {
        var offset = 0
        do {
            while let (head, body) = try responses.next(bytes, from: &offset) {
                let isRight = (200...299).contains(head.statusCode)
                replied(isRight ? .ok : .refused("status \(head.statusCode)"), body.rawSpan)
            }
        } catch {
            fail("no HTTP: \(error)")
        }
        return bytes.byteCount
    }
}
