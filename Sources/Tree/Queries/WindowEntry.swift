/// One child in a ``Window``.
package struct WindowEntry: Sendable {
    /// The value by which the query orders the child.
    package let value: Node
    package let key: Key
    package let node: Node
}
