import PandoBytes
import PandoRandom
import PandoTree
import Testing

/// realtime §9.2 and §9.3. Hashes decide whether a client's data is current: with one wrong bit every
/// reconnect downloads everything again, and transactions never commit.
@Suite struct SimpleHash {
    @Test(
        arguments: [
            (#"0"#, "7ysMph9WPitGP7poMnMHMVPtUlI="),
            (#"1"#, "YPVfR2bXt/lcDjiQZ8pOkAd3qkQ="),
            (#"2"#, "WtSt2Xo3L0JtPuArzQHofPrZOuU="),
            (#"3"#, "3tYODYzGXwaGnXNech4jb4T9las="),
            (#"-1"#, "dMw8oUBNk57KCeIcgAKXVS2BfB0="),
            (#"4"#, "eVih19a6ZDz3NL32uVBtg9KSgQY="),
            (#"5"#, "w28swksk9+tXf5jEdS9R5oSFAv8="),
            (#"6"#, "qb1N9GrUXfC3JyZPF8EXiNYcv4I="),
            (#"100"#, "5PG1TllwFpsPMPTAduN1cJllS2g="),
            (#"101"#, "kD0WC1dhA4d9tF2LqEBSwg8x4BY="),
            (#"1.5"#, "4MftviR9Z/2MQCMkjh2RNbvlLJc="),
            (#"4.5623"#, "vf1CL0tIRwXXunHcG/irRECk3lY="),
            (#"0.1"#, "wtQjBi5TBE+ZcdekL6INiSeCSQI="),
            (#"2147483648"#, "H8fwRsS4zK/yfGisPVCUUp/9hDY="),
            (#"1700000000000"#, "vzg0cpxiAeqQeyjkTe0gblJSTn8="),
            (#"9007199254740991"#, "zP1cy9AKj8mOJfzxsijijNJ8QdY="),
            (#"9223372036854775807"#, "32bocnbu4EgM2BqL/q++g0AWEbw="),
            (#"-9223372036854775808"#, "t8Zsu6QlM7Q4staTHVsgiTYxyUs="),
            (#"1e21"#, "rZwDOBGJ9Z0+flzyrCWzeSigSyE="),
            (#"1.7976931348623157e308"#, "8R+ekVQmxs6ZWP0fdzFHxVeGnWo="),
            (#"5e-324"#, "AVzIJwC869iLHq/DQh6bzLDrVO4="),
            (#"true"#, "E5z61QM0lN/U2WsOnusszCTkR8M="),
            (#"false"#, "aSSNoqcS4oQwJ2xxH20rvpp3zP0="),
            (#""""#, "Ki0Xy0V6morg0TO3Sxi/jwugYDQ="),
            (#""i""#, "DeH+bYeyNKPWpoASovNpeBOhCLU="),
            (#""hey guys""#, "CUNLXWpCVoJE6z7z1vE57lGaKAU="),
            (#""say \"hi\"\\""#, "CJAoi0tyU1vNEpVeoGTxM9CSqIo="),
            (#""unicode ✔ 🐵 🌴 x͢""#, "JoKoFUnbmg3/DlY70KaDWslfYPk="),
            (#"{".value":2,".priority":1}"#, "iiz9CIvYWkKdETTpjVFBJNx1SiI="),
            (#"{".value":"bar",".priority":"baz"}"#, "ucaycBtic8V8NoIMbcdn+UHL+fI="),
            (#"{".value":true,".priority":0}"#, "I6km7S4iTXNEdCUVelqkkn9WdX4="),
        ] as [(String, String)])
    func leaf(json: String, hash: String) throws {
        #expect(try node(json).hash == hash)
    }

    @Test(
        arguments: [
            (#"{"a":1}"#, "gIphxiFGusLh2VwSNVKSvNu90m4="),
            (#"{"a":1,"b":2}"#, "AUZnXhNqrfbznYVxcCvNpzpjvTU="),
            (#"{"B2":2,"B1":1}"#, "saXm0YMzvotwh2WvsZFatveeAZk="),
            (#"{"x":5,"y":7}"#, "7TWD4p6G70uXhY2MqBsz7eE4sqM="),
            (#"[1,2,3]"#, "h6XOC3OcidJlNC1Velmi3gphgQk="),
            (
                #"{"intNode":4,"doubleNode":4.5623,"stringNode":"hey guys","boolNode":true}"#,
                "6Mc4jFmNdrLVIlJJjz2/MakTK9I="
            ),
            (#"{"name":"Ann","age":30}"#, "Jc1KY4opId4b3X4UpWrTqe2BJ2I="),
            (#"{"2":"b","1":"a","k":true}"#, "reIoCx51kwTWvtOUYzpkQ14m7NM="),
            (#"{"1":10,"01":7,"001":8,"10":20,"11":29,"12":25,"A":15}"#, "fYENO1aD55oc6I6f+FM+cv1Y1yc="),
            (
                #"{"B1":{".value":1,".priority":2},"B2":{".value":2,".priority":1},"B3":3}"#,
                "9q4+gOobE1ozTZyb85m/iDxoYzY="
            ),
            (
                #"{"z":{".value":1,".priority":"1"},"y":{".value":1,".priority":10},"x":{".value":1,".priority":9},"w":1}"#,
                "g7NiiZ1lTFDu4wcjf110x21FhJI="
            ),
            (
                #"[1,{".value":2,".priority":"1"},{".value":3,".priority":1.1},{".value":4,".priority":1}]"#,
                "PfCbiYP2e75wAxeBx078Rpag/as="
            ),
            (#"{".priority":2,"A":2}"#, "1xHri2Z3/K1NzjMObwiYwEfgo18="),
            (
                #"{"root":{"c":{".value":99,".priority":"abc"},".priority":"def"}}"#,
                "Fm6tzN4CVEu5WxFDZUdTtqbTVaA="
            ),
            (
                #"{"root":{"c":{".value":99,".priority":42},".priority":3.14}}"#,
                "B15QCqrzCxrI5zz1y00arWqFRFg="
            ),
            (#"{"count":{".value":3,".priority":"p"}}"#, "9OpCf1f9zgRZNH+bJs/9db54pJE="),
            (#"{"k":{".value":"v",".priority":-1}}"#, "u9oVXH3kjI6L9+cO6Z0GF0SVWvY="),
            (#"{"a":"x:y","b":"x"}"#, "TKLHWKcHwSQSWoDrjk4AoH1OjmI="),
            (#"{"a":"é"}"#, "a4qRmFivAjYmnp55Y9s9QlOtn8Q="),
            (#"{"\uE000":1,"🐵":2}"#, "uSF2XgWfe2xXbiiys1sJUTdVK9A="),
            (#"{"n":1}"#, "bk8dIh8Akxn4Q4uTVwWtl4dxNyg="),
            (#"{"a":{"n":1},"b":{"n":2}}"#, "VNhP7pwfJuModTEHVIUJWdseZJA="),
            (#"{"a":{"n":1},"b":{"n":2},"c":{"n":3}}"#, "Vioo7s3YSsqev1s6tofahAR+hv4="),
        ] as [(String, String)])
    func object(json: String, hash: String) throws {
        #expect(try node(json).hash == hash)
    }

    @Test(arguments: ["null", "{}", "[]", #"{"a":{"b":{}}}"#, #"{".priority":1}"#, #"{".value":null}"#])
    func nothing(json: String) throws {
        #expect(try node(json).hash == "")
    }

    /// §8.5: −0 is 0, so its hash is 0's.
    @Test func negativeZero() throws {
        #expect(try node("-0.0").hash == "7ysMph9WPitGP7poMnMHMVPtUlI=")
    }

    /// Numbers are hashed as doubles, as clients round them.
    @Test(arguments: [
        ("9007199254740993", "9007199254740992"), ("9223372036854775807", "9223372036854775808"),
        ("1", "1.0"),
    ])
    func numbersByValue(one: String, other: String) throws {
        #expect(try node(one).hash == (try node(other).hash))
    }

    /// Against the definition, on random trees; long texts are passed to SHA-1 in pieces.
    @Test(arguments: 0..<10) func definition(seed: Int) {
        var maker = TreeMaker(generator: SeededGenerator(seed: seed))
        for _ in 0..<20 {
            let tree = maker.tree()
            #expect(tree.hash == naive(tree), "\(tree)")
        }
        maker.maxWidth = 400
        maker.maxDepth = 2
        maker.keys = (0..<600).map { Key(index: $0 * 7) }
        let wide = maker.tree()
        #expect(wide.hash == naive(wide))
    }

    private func naive(_ node: Node) -> String {
        guard !node.isEmpty else { return "" }
        func value(_ leaf: Node) -> String {
            switch leaf {
            case .boolean(let value): return "boolean:\(value)"
            case .string(let text): return "string:\(text.string)"
            default:
                let digits = String(leaf.doubleValue!.bitPattern, radix: 16)
                return "number:" + String(repeating: "0", count: 16 - digits.count) + digits
            }
        }
        var text = node.priority.map { "priority:\(value($0.node)):" } ?? ""
        if node.isLeaf {
            text += value(node.withoutPriority)
        } else {
            let sorted = node.children.entries.sorted { left, right in
                let order = Priority.compare(left.node.priority, right.node.priority)
                return order != 0 ? order < 0 : left.key < right.key
            }
            for entry in sorted { text += ":\(entry.key.string):\(naive(entry.node))" }
        }
        return SHA1.base64(of: Array(text.utf8).rawSpan)
    }
}
