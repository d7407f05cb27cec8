// swift-tools-version: 6.2
import PackageDescription

// One line per room, ground floor first. A room sees only the rooms it stands on: every build passes
// `--explicit-target-dependency-import-check error`, so an arrow that is not drawn here does not compile.

let rules: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .strictMemorySafety(),
    .treatAllWarnings(as: .error),
    .enableExperimentalFeature("Lifetimes"),  // spans as results: borrowed bytes without a closure or a copy
    // Whether two accesses to one variable overlap is checked at run time in debug builds (the tests of the
    // rooms, and those of the protocols from end to end); in release it took a fifteenth of a GET's
    // instructions and of a set's.
    .unsafeFlags(["-enforce-exclusivity=unchecked"], .when(configuration: .release)),
]

let argumentParser = Target.Dependency.product(name: "ArgumentParser", package: "swift-argument-parser")
let histogram = Target.Dependency.product(name: "Histogram", package: "hdrhistogram-swift")
let logging = Target.Dependency.product(name: "Logging", package: "swift-log")
let jwtKit = Target.Dependency.product(name: "JWTKit", package: "jwt-kit")

/// A folder under `Sources`, built as the module `Pando` + folder.
func room(_ folder: String, on rooms: [String] = [], c: [String] = [], libraries: [Target.Dependency] = [])
    -> Target
{
    .target(
        name: "Pando\(folder)",
        dependencies: rooms.map { .byName(name: "Pando\($0)") } + c.map { .byName(name: $0) } + libraries,
        path: "Sources/\(folder)",
        swiftSettings: rules
    )
}

/// A room with a `main`: nobody stands on it.
func door(
    _ folder: String, on rooms: [String], c: [String] = [], libraries: [Target.Dependency] = []
) -> Target {
    .executableTarget(
        name: "Pando\(folder)",
        dependencies: rooms.map { .byName(name: "Pando\($0)") } + c.map { .byName(name: $0) } + libraries,
        path: "Sources/\(folder)",
        swiftSettings: rules
    )
}

/// The tests of one room live in the folder of the same name under `Tests`.
func tests(
    _ folder: String, on rooms: [String], c: [String] = [], libraries: [Target.Dependency] = [],
    fixtures: [String] = []
) -> Target {
    .testTarget(
        name: "Pando\(folder)Tests",
        dependencies: rooms.map { .byName(name: "Pando\($0)") } + c.map { .byName(name: $0) } + libraries,
        path: "Tests/\(folder)",
        exclude: fixtures,  // read from where they lie
        swiftSettings: rules
    )
}

let package = Package(
    name: "pando",
    products: [
        .executable(name: "pando", targets: ["PandoCommandLine"]),
        .executable(name: "pando-echo", targets: ["PandoEcho"]),
        .executable(name: "pando-bench", targets: ["PandoBench"]),
        .executable(name: "pando-load", targets: ["PandoLoad"]),
        .executable(name: "simulate", targets: ["PandoSimulate"]),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
        .package(url: "https://github.com/vapor/jwt-kit", from: "5.7.1"),
        .package(url: "https://github.com/HdrHistogram/hdrhistogram-swift", from: "0.2.0"),
    ],
    targets: [
        // Ground
        .target(name: "CBytes", path: "Sources/C/CBytes"),
        .target(name: "CSystem", path: "Sources/C/CSystem"),
        .target(name: "COpenSSL", path: "Sources/C/COpenSSL", linkerSettings: [.linkedLibrary("crypto")]),
        .target(name: "CZlib", path: "Sources/C/CZlib", linkerSettings: [.linkedLibrary("z")]),
        .target(name: "CCounting", path: "Sources/C/CCounting"),
        room("Bytes", c: ["CBytes", "COpenSSL"]),
        room("Compression", on: ["Bytes"], c: ["CZlib"]),

        // Pure floor: values in, actions out. No clock, file, socket or thread.
        room("Tree", on: ["Bytes"]),
        room("Rules", on: ["Tree", "Bytes"]),
        room("Engine", on: ["Rules", "Tree", "Bytes"]),
        room("Wire", on: ["Tree", "Bytes"]),
        room("HTTP", on: ["Bytes"]),
        room("WebSocket", on: ["HTTP", "Bytes"]),
        room("REST", on: ["HTTP", "Tree", "Compression", "Bytes"]),

        // Machine floor
        room("Journal", on: ["Bytes"], c: ["CSystem"]),
        room("Reactor", on: ["Bytes"], c: ["CSystem"]),

        // A disk that loses power, for tests and the simulator
        room("SimulatedDisk", on: ["Journal"]),

        // Who somebody is: pure but for fetched keys.
        room("Identity", on: ["Rules", "Tree", "Bytes"], libraries: [jwtKit]),

        // What measures: a client on sockets, numbered values, figures
        room("Traffic", on: ["WebSocket", "HTTP", "Reactor", "Bytes"]),

        // Upstairs
        room(
            "Server",
            on: [
                "Engine", "Rules", "Tree", "Wire", "REST", "WebSocket", "HTTP", "Journal", "Reactor",
                "Compression", "Identity",
                "Bytes",
            ],
            libraries: [logging]
        ),

        // Front doors
        door(
            "CommandLine",
            on: [
                "Server", "Engine", "Rules", "Tree", "REST", "HTTP", "Journal", "Reactor", "Compression",
                "Identity", "Bytes",
            ],
            libraries: [argumentParser, logging]),
        door("Echo", on: ["WebSocket", "HTTP", "Reactor", "Bytes"], libraries: [argumentParser]),
        door(
            "Bench",
            on: [
                "Traffic", "Engine", "Rules", "Wire", "WebSocket", "HTTP", "Tree", "Journal", "SimulatedDisk",
                "Reactor",
                "Bytes",
            ],
            c: ["CCounting"], libraries: [argumentParser]),
        door(
            "Load", on: ["Traffic", "Tree", "WebSocket", "HTTP", "Reactor", "Bytes"],
            libraries: [argumentParser, histogram]),
        door(
            "Simulate", on: ["Server", "Engine", "Rules", "Tree", "Journal", "SimulatedDisk", "Bytes"],
            libraries: [argumentParser, logging]),

        tests("Bytes", on: ["Bytes"], c: ["CBytes"]),
        tests("Compression", on: ["Compression", "Bytes"]),
        tests("Tree", on: ["Tree", "Bytes"]),
        tests("Rules", on: ["Rules", "Tree", "Bytes"]),
        tests("Engine", on: ["Engine", "Rules", "Tree", "Bytes"]),
        tests("Wire", on: ["Wire", "Tree", "Bytes"]),
        tests("HTTP", on: ["HTTP", "Bytes"]),
        tests("WebSocket", on: ["WebSocket", "HTTP", "Bytes"]),
        tests("REST", on: ["REST", "HTTP", "Tree", "Compression", "Bytes"]),
        tests("Journal", on: ["Journal", "SimulatedDisk", "Bytes"], fixtures: ["Fixtures"]),
        tests("Reactor", on: ["Reactor", "Bytes"], c: ["CSystem"]),
        tests("Bench", on: ["Bench", "Journal", "SimulatedDisk", "Reactor"]),
        tests("Identity", on: ["Identity", "Rules", "Tree", "Bytes"], libraries: [jwtKit]),
        tests("Traffic", on: ["Traffic", "WebSocket", "Bytes"]),
        tests("Load", on: ["Load", "Traffic", "Reactor", "Bytes"]),
        tests("Simulate", on: ["Simulate"]),
        tests(
            "Server",
            on: [
                "Server", "Engine", "Rules", "Tree", "Wire", "Journal", "SimulatedDisk", "Reactor", "HTTP",
                "WebSocket", "Bytes",
            ]),
    ]
)
