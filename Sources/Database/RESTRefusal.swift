import PandoREST

/// Translates the refusal of a write.
func orRefuse<Result>(_ body: () throws(JournalRefusal) -> Result) throws(RESTError) -> Result {
    do throws(JournalRefusal) { return try body() } catch {
        switch error {
        case .tooLarge: throw .writeTooLarge
        case .diskFull: throw .diskFull
        // No response yet: another thread decides.
        case .undecided: throw .contested
        }
    }
}
