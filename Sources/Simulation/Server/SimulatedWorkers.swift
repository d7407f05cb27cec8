import PandoBytes
import PandoConnections
import PandoDatabase
import PandoEngine
import PandoIdentity
import PandoREST
import PandoReactor
import PandoRules
import PandoTree
import PandoWire

/// What a worker has found out for a connection.
enum WorkerResult: Sendable {
    case verified(VerificationResult)
    case parsed(ParsedMessage)
    case encoded(LargeMessage)
    case measured(NodeSizeCheck)
    case bodyRead(BodyResult)
}

/// The work that connections leave to other threads: verifying tokens, and parsing, encoding and measuring
/// what is large. A job is done when the simulation says so, in any order of sessions.
final class SimulatedWorkers {
    enum Work {
        case verify(Text)
        case parse([UInt8])
        case encode(LargeMessage)
        case measure(Node, IndexedQuery?, byteLimit: Int?, wantsETag: Bool)
        case makeWindow(StreamWindow)
        case readBody(ByteBlocks, RESTRequest, byteLimit: Int)
    }

    struct Result: Sendable {
        let session: SessionID
        let result: WorkerResult
    }

    private struct Job {
        let session: SessionID
        let work: Work
    }

    /// Most nodes of one write.
    private let nodeLimit: Int
    private let budget: EncodingBudget
    private let results: Mailbox<Result>
    private var jobs: [Job] = []

    init(nodeLimit: Int, _ budget: EncodingBudget, results: Mailbox<Result>) {
        self.nodeLimit = nodeLimit
        self.budget = budget
        self.results = results
    }

    var jobCount: Int { jobs.count }

    func add(_ work: Work, for session: SessionID) { jobs.append(Job(session: session, work: work)) }

    /// The jobs of a session are not needed any more. Tokens are verified all the same.
    func abandonJobs(of session: SessionID) {
        jobs.removeAll { job in
            if case .verify = job.work { return false }
            return job.session == session
        }
    }

    /// The body that a session has had read is not needed any more.
    func cancelBody(of session: SessionID) {
        jobs.removeAll { job in
            if case .readBody = job.work { job.session == session } else { false }
        }
    }

    /// Does one job, and posts its result.
    /// - Precondition: `index` is less than ``jobCount``.
    func perform(_ index: Int) {
        let job = jobs.remove(at: index)
        results.post(Result(session: job.session, result: result(of: job)))
    }

    private func result(of job: Job) -> WorkerResult {
        switch job.work {
        case .verify(let token): return .verified(Self.verify(token))
        case .parse(let message):
            return .parsed(ParsedMessage(parsing: message, for: job.session, nodeLimit: nodeLimit))
        case .encode(let message):
            var hashes = HashMemo()
            message.encode(within: budget, &hashes)
            return .encoded(message)
        case .measure(let node, let query, let byteLimit, let wantsETag):
            return .measured(
                NodeSizeCheck(
                    of: node, query, for: job.session, byteLimit: byteLimit, wantsETag: wantsETag))
        case .makeWindow(let window):
            return .measured(NodeSizeCheck(making: window, for: job.session))
        case .readBody(let bytes, let request, let byteLimit):
            var result = BodyResult(session: job.session, content: .bytes([]), byteCount: bytes.count)
            do throws(RESTError) {
                result.content = try BodyResult.Content(
                    reading: bytes.joined(), of: request, byteLimit: byteLimit)
            } catch {
                result.content = .refused(error)
            }
            return .bodyRead(result)
        }
    }

    /// The tokens of simulated clients are the names of their rights.
    private static func verify(_ token: Text) -> VerificationResult {
        switch token {
        case "user": .accepted(Identity(credential: Credential(authVariable: #"{"uid":"u"}"#)))
        case "admin": .accepted(Identity(credential: .admin))
        default: .refused(.unparsable)
        }
    }
}
