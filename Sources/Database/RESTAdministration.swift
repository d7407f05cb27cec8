import PandoBytes
import PandoEngine
import PandoJournal
import PandoREST
import PandoRules
import PandoStorage
import PandoTree

/// Answers what administrators ask and change beside data: rules, settings, lists, backups and inspections
/// (rest §10). Who asks is checked before. Used by one thread at a time.
struct RESTAdministration {
    private let processor: CommandProcessor
    private let access: AccessManager

    init(_ processor: CommandProcessor, _ access: AccessManager) {
        self.processor = processor
        self.access = access
    }

    /// Reads or replaces the rules.
    /// - Parameter compiled: Of the source in `publication`; nil where it is to be compiled here.
    func rules(
        _ request: RESTRequest, _ publication: RulesPublication,
        _ compiled: Result<Ruleset, InvalidRules>?, _ database: StoredDatabase
    ) throws(RESTError) -> RESTCallResult {
        guard request.method == .put else {
            guard case .loaded(let rules) = database.engine.access else {
                return .verbatim(Array(Self.rulesText(of: database.engine.access).utf8))
            }
            return .verbatim(request.isStrict ? rules.strictJSON : rules.source.bytes)
        }
        let rules: Ruleset
        do throws(InvalidRules) {
            if let compiled {
                rules = try compiled.get()
            } else {
                rules = try Ruleset(loading: publication.source)
            }
        } catch {
            return .failed(error.description)
        }
        if !request.isDryRun {
            guard database.fileRules == nil else { return .failed(Self.fileRulesText) }
            try orRefuse { () throws(JournalRefusal) in try access.load(rules, publication, into: database) }
        }
        return .verbatim(Array("{\"status\":\"ok\"}".utf8))
    }

    private static let fileRulesText =
        "The rules of this database are given by --rules and can't be replaced here."

    /// The rules that a database without rules behaves like.
    private static func rulesText(of access: Access) -> String {
        if case .open = access {
            "{\"rules\":{\".read\":true,\".write\":true}}"
        } else {
            "{\"rules\":{\".read\":false,\".write\":false}}"
        }
    }

    /// Reads or changes a setting (rest §10).
    func setting(
        _ setting: Setting?, _ request: RESTRequest, _ value: [UInt8], _ database: StoredDatabase
    ) throws(RESTError) -> RESTCallResult {
        let json = request.method == .put ? value : Array("null".utf8)
        guard let node = try? Node(json: json.rawSpan) else { throw .malformedData }
        switch setting {
        case .defaultWriteSizeLimit:
            if request.method == .put {
                guard case .string(let text) = node, WriteSizeLimit(rawValue: text.string) != nil else {
                    throw .writeSizeLimitMalformed
                }
                try change(.defaultWriteSizeLimit, to: node, in: database)
            }
            let stored = database.settings[Setting.defaultWriteSizeLimit.rawValue]
            return .verbatim(stored ?? Array("\"large\"".utf8))
        case .strictTriggerValidation:
            if request.method == .put {
                guard case .boolean = node else { throw .malformedData }
                try change(.strictTriggerValidation, to: node, in: database)
            }
            let stored = database.settings[Setting.strictTriggerValidation.rawValue] ?? Array("false".utf8)
            return .verbatim(Array("{\"value\":".utf8) + stored + Array("}".utf8))
        case .functionTriggers: return .verbatim(Array("{}".utf8))
        // There are no staged rulesets: the one in force is `/.settings/rules.json`.
        case .rulesets, .rulesetLabels:
            guard request.method.isRead else { throw .methodNotAllowed(allowed: .inspect) }
            return .verbatim(Array("{}".utf8))
        case .profile: return .failed("profile.json is an event stream: ask with Accept: text/event-stream")
        case nil: throw .invalidPath
        }
    }

    private func change(_ setting: Setting, to node: Node, in database: StoredDatabase) throws(RESTError) {
        var json: [UInt8] = []
        json.append(json: node)
        try orRefuse { () throws(JournalRefusal) in try processor.change(setting, to: json, in: database) }
    }

    /// A question for the thread that reads the journal. (Where the journal is only in memory there is none.)
    func history(_ parameters: HistoryParameters, _ database: StoredDatabase) -> RESTCallResult {
        guard processor.journal.isEnabled else {
            return .report(
                RESTReport(
                    .notImplemented, error: "This server keeps no journal: it was started without --data.")
            )
        }
        // What is written from now on may not be durable when the answer leaves.
        let now = processor.clock.now()
        return .deferred(
            .history(
                HistoryQuestion(
                    HistoryQuestion.Part(parameters.part), namespace: database.id, path: parameters.path,
                    time: min(parameters.time ?? now, now),
                    limit: parameters.part == .rules
                        ? min(parameters.limit, HistoryLimits.rulesCount) : parameters.limit,
                    before: parameters.before.map(SequenceNumber.init),
                    lastSequence: processor.journal.lastSequence)))
    }

    /// Everything, as a file.
    func backup() -> RESTCallResult {
        processor.metrics.backups.add()
        var bytes = processor.backup
        bytes.onFinished = { [metrics = processor.metrics] in metrics.noteFinishedBackup() }
        return .backup(bytes)
    }

    /// What the rules would decide, for another thread.
    func evaluation(_ request: EvaluationRequest, _ database: StoredDatabase) -> RESTCallResult {
        let job = EvaluationJob(
            request: request, root: database.engine.root, access: database.engine.access,
            time: processor.clock.now())
        return .deferred(.evaluation(job))
    }

    func denials(_ database: StoredDatabase) -> RESTCallResult {
        .verbatim(processor.denials.json(of: database))
    }

    /// The names of all databases.
    func databases() -> RESTCallResult {
        var json: [UInt8] = []
        json.append("[")
        for (index, name) in processor.databases.names.enumerated() {
            if index > 0 { json.append(",") }
            json.append("{\"name\":")
            json.append(json: Text(name))
            json.append("}")
        }
        json.append("]")
        return .verbatim(json)
    }
}

extension HistoryQuestion.Part {
    fileprivate init(_ part: HistoryParameters.Part) {
        self =
            switch part {
            case .all: .valueAndWrites
            case .writes: .writes
            case .rules: .rules
            }
    }
}
