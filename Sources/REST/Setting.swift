/// A `/.settings/<name>.json` of a database, except its rules (rest §10). The raw value is the name, also in
/// the journal.
package enum Setting: String, Sendable {
    case defaultWriteSizeLimit
    case strictTriggerValidation
    /// Accepted and ignored: triggers belong to a service that does not exist here.
    case functionTriggers
    /// Rulesets beside the one in force, and their labels: there are none.
    case rulesets
    case rulesetLabels = "ruleset_labels"
    /// An event stream of the operations on the database.
    case profile
}
