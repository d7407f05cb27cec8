// swift-tools-version: 6.2
import PackageDescription

// One line per module, the lowest layer first. A module can import only the modules named in its line: every
// build passes `--explicit-target-dependency-import-check error`, so any other import does not compile.

let rules: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .strictMemorySafety(),
    .treatAllWarnings(as: .error),
    .enableExperimentalFeature("Lifetimes"),  // spans as results: borrowed bytes without a closure or a copy
    // Debug builds check at run time whether two accesses to one variable overlap. All module tests and the
    // end-to-end protocol tests run on a debug build. In release builds the check took 1/15 of the instructions
    // of a GET and of a set.
    .unsafeFlags(["-enforce-exclusivity=unchecked"], .when(configuration: .release)),
]

let argumentParser = Target.Dependency.product(name: "ArgumentParser", package: "swift-argument-parser")
let histogram = Target.Dependency.product(name: "Histogram", package: "hdrhistogram-swift")
let logging = Target.Dependency.product(name: "Logging", package: "swift-log")
let configuration = Target.Dependency.product(name: "Configuration", package: "swift-configuration")
let jwtKit = Target.Dependency.product(name: "JWTKit", package: "jwt-kit")

/// A folder under `Sources`, built as the module `Pando` + folder.
func library(
    _ folder: String, on modules: [String] = [], c: [String] = [], libraries: [Target.Dependency] = []
)
    -> Target
{
    .target(
        name: "Pando\(folder)",
        dependencies: modules.map { .byName(name: "Pando\($0)") } + c.map { .byName(name: $0) } + libraries,
        path: "Sources/\(folder)",
        swiftSettings: rules
    )
}

/// An executable: no module imports it.
func executable(
    _ folder: String, on modules: [String], c: [String] = [], libraries: [Target.Dependency] = []
) -> Target {
    .executableTarget(
        name: "Pando\(folder)",
        dependencies: modules.map { .byName(name: "Pando\($0)") } + c.map { .byName(name: $0) } + libraries,
        path: "Sources/\(folder)",
        swiftSettings: rules
    )
}

/// The tests of a module, in the folder of the same name under `Tests`.
func tests(
    _ folder: String, on modules: [String], c: [String] = [], libraries: [Target.Dependency] = [],
    fixtures: [String] = []
) -> Target {
    .testTarget(
        name: "Pando\(folder)Tests",
        dependencies: modules.map { .byName(name: "Pando\($0)") } + c.map { .byName(name: $0) } + libraries,
        path: "Tests/\(folder)",
        exclude: fixtures,  // tests read these files from the source folder
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
        .package(url: "https://github.com/apple/swift-argument-parser", exact: "1.8.2"),
        // No trait: values come from flags, the environment and a file that the command line parses itself.
        .package(url: "https://github.com/apple/swift-configuration", exact: "1.4.0", traits: []),
        .package(url: "https://github.com/apple/swift-log", exact: "1.16.2"),
        .package(url: "https://github.com/vapor/jwt-kit", exact: "5.7.1"),
        .package(url: "https://github.com/HdrHistogram/hdrhistogram-swift", exact: "0.2.0"),
    ],
    targets: [
        // Base
        .target(name: "CBytes", path: "Sources/C/CBytes"),
        .target(name: "COperatingSystem", path: "Sources/C/COperatingSystem"),
        .target(name: "COpenSSL", path: "Sources/C/COpenSSL", linkerSettings: [.linkedLibrary("crypto")]),
        .target(
            name: "CTLS", path: "Sources/C/CTLS",
            linkerSettings: [.linkedLibrary("ssl"), .linkedLibrary("crypto")]),
        .target(name: "CZlib", path: "Sources/C/CZlib", linkerSettings: [.linkedLibrary("z")]),
        .target(name: "CCounting", path: "Sources/C/CCounting"),
        library("Random"),
        library("Time"),
        library("Metrics"),
        library("Files"),
        library("Bytes", c: ["CBytes", "COpenSSL"]),
        library("Compression", on: ["Bytes"], c: ["CZlib"]),

        // Pure: values in, actions out. No clock, file, socket or thread.
        library("Tree", on: ["Bytes"]),
        library("Rules", on: ["Tree", "Bytes"]),
        library("Engine", on: ["Rules", "Tree", "Bytes"]),
        library("Wire", on: ["Tree", "Bytes"]),
        library("HTTP", on: ["Bytes"]),
        library("WebSocket", on: ["HTTP", "Compression", "Bytes"]),
        library("REST", on: ["HTTP", "Tree", "Compression", "Bytes"]),

        // Files beside the data, served from memory; only its loader reads a directory
        library("StaticFiles", on: ["HTTP", "Compression", "Files", "Bytes"]),

        // Operating system: files, sockets, time
        library("Journal", on: ["Bytes"], c: ["COperatingSystem"]),
        library("TLS", c: ["CTLS"]),
        library("Reactor", on: ["HTTP", "TLS", "Metrics", "Time", "Bytes"], c: ["COperatingSystem"]),

        // A disk that loses power, for tests and the simulator
        library("SimulatedDisk", on: ["Journal", "Random"]),

        // Tokens and credentials: pure but for keys that are fetched from their issuers
        library("Identity", on: ["Rules", "Tree", "Files", "Bytes"], libraries: [jwtKit]),

        // The load generator: clients on sockets, numbered values, scenarios, statistics
        library(
            "Traffic",
            on: ["Tree", "WebSocket", "HTTP", "Compression", "Reactor", "TLS", "Time", "Random", "Bytes"],
            libraries: [histogram]),

        // The data directory: recovery, journal and checkpoint threads, imports, restores, backups
        library(
            "Storage",
            on: ["Engine", "Rules", "Tree", "Journal", "Reactor", "Metrics", "Time", "Random", "Bytes"],
            libraries: [logging]),

        // Databases at work: executor, fair turns, command processor, durability gate, REST handler, outputs
        library(
            "Database",
            on: [
                "Storage", "Engine", "Rules", "Tree", "Wire", "REST", "WebSocket", "Journal", "Reactor",
                "Metrics", "Time", "Bytes",
            ],
            libraries: [logging]),

        // Connections as state machines: events in, actions out. No socket, clock or thread.
        library(
            "Connections",
            on: [
                "Database", "Storage", "Engine", "Rules", "Tree", "Wire", "REST", "StaticFiles", "WebSocket",
                "HTTP", "Identity", "Time", "Bytes",
            ]),

        // The options of `pando serve`, as values
        library(
            "Settings",
            on: [
                "Connections", "Database", "Storage", "Tree", "Wire", "REST", "HTTP", "Journal", "Reactor",
                "TLS", "Identity",
            ],
            libraries: [logging]),

        // What the process logs, and the access log
        library("Log", on: ["Reactor", "Metrics", "Time"], libraries: [logging]),

        // The I/O loops: they connect sockets, the state machines of Connections, and the databases
        library(
            "Loops",
            on: [
                "Settings", "Log", "Connections", "Database", "Storage", "Engine", "Tree", "REST",
                "StaticFiles", "WebSocket", "HTTP", "Journal", "Reactor", "TLS", "Compression", "Identity",
                "Metrics", "Time", "Bytes",
            ],
            libraries: [logging]),

        // The admin port: metrics, health, reports for administrators
        library(
            "Administration",
            on: [
                "Loops", "Settings", "Log", "Connections", "Database", "Storage", "Engine", "Rules", "Tree",
                "REST", "HTTP", "Reactor", "TLS", "Identity", "Metrics", "Time", "Bytes",
            ],
            libraries: [logging]),

        // Composition
        library(
            "Server",
            on: [
                "Administration", "Loops", "Settings", "Log", "Database", "Storage", "Engine", "Rules",
                "Tree", "StaticFiles", "HTTP", "Journal", "Reactor", "TLS", "Identity", "Time", "Files",
                "Bytes",
            ],
            libraries: [logging]),

        // The server in a simulated world: disk, network, clock, clients and steps from one seed. Not in `pando`.
        library(
            "Simulation",
            on: [
                "Connections", "Database", "Storage", "Engine", "Rules", "Tree", "Wire", "REST", "Identity",
                "Journal", "SimulatedDisk", "Reactor", "TLS", "Time", "Random", "Bytes",
            ],
            libraries: [logging]),

        // Executables
        executable(
            "CommandLine",
            on: [
                "Server", "Settings", "Log", "Storage", "Engine", "Rules", "Tree", "REST", "HTTP", "Journal",
                "Reactor", "Compression", "Identity", "Files", "Bytes",
            ],
            libraries: [argumentParser, configuration, logging]),
        executable(
            "Echo", on: ["WebSocket", "HTTP", "Reactor", "TLS", "Compression", "Bytes"],
            libraries: [argumentParser]),
        executable(
            "Bench",
            on: [
                "Traffic", "Engine", "Rules", "Wire", "WebSocket", "HTTP", "Tree", "Journal", "SimulatedDisk",
                "Reactor", "Metrics", "Time", "Random", "Bytes",
            ],
            c: ["CCounting"], libraries: [argumentParser]),
        executable(
            "Load",
            on: ["Traffic", "Tree", "WebSocket", "HTTP", "Reactor", "TLS", "Time", "Random", "Bytes"],
            libraries: [argumentParser]),
        executable("Simulate", on: ["Simulation"], libraries: [argumentParser]),

        // What fuzzers give any bytes to; also in the tests
        .target(
            name: "PandoFuzzTargets",
            dependencies: [
                "Bytes", "Compression", "Connections", "Engine", "HTTP", "Identity", "Journal", "REST",
                "Reactor", "Rules", "SimulatedDisk", "Storage", "TLS", "Tree", "WebSocket", "Wire",
            ].map { .byName(name: "Pando\($0)") },
            path: "Tests/Fuzz/Targets", swiftSettings: rules),
        .testTarget(
            name: "PandoFuzzTests",
            dependencies: [.byName(name: "PandoFuzzTargets"), .byName(name: "PandoRandom")],
            path: "Tests/Fuzz/Replay", swiftSettings: rules),

        tests("Bytes", on: ["Bytes", "Random"], c: ["CBytes"]),
        tests("Metrics", on: ["Metrics"]),
        tests("Compression", on: ["Compression", "Bytes", "Random"], c: ["CZlib"]),
        tests("Tree", on: ["Tree", "Bytes", "Random"], c: ["COperatingSystem"]),
        tests("Rules", on: ["Rules", "Tree", "Bytes", "Random"]),
        tests("Engine", on: ["Engine", "Rules", "Tree", "Bytes", "Random"]),
        tests("Wire", on: ["Wire", "Tree", "Bytes", "Random"]),
        tests("HTTP", on: ["HTTP", "Bytes", "Random"]),
        tests("WebSocket", on: ["WebSocket", "HTTP", "Compression", "Bytes", "Random"]),
        tests("REST", on: ["REST", "HTTP", "Tree", "Compression", "Bytes", "Random"]),
        tests("StaticFiles", on: ["StaticFiles", "HTTP", "Compression", "Bytes"]),
        tests(
            "Journal", on: ["Journal", "SimulatedDisk", "Bytes", "Random"], c: ["COperatingSystem"],
            fixtures: ["Fixtures"]),
        tests("TLS", on: ["TLS", "Random"], fixtures: ["Fixtures"]),
        tests("Reactor", on: ["Reactor", "TLS", "Time", "Bytes", "Random"], c: ["COperatingSystem"]),
        tests("Bench", on: ["Bench", "Journal", "SimulatedDisk", "Reactor"]),
        tests("Identity", on: ["Identity", "Rules", "Tree", "Random", "Bytes"], libraries: [jwtKit]),
        tests(
            "CommandLine", on: ["CommandLine", "Settings", "Storage", "Tree"], libraries: [argumentParser]),
        tests("Traffic", on: ["Traffic", "WebSocket", "Random", "Bytes"]),
        tests("Load", on: ["Load", "Traffic", "Reactor", "Bytes"]),
        tests("Simulation", on: ["Simulation", "Random"]),
        tests(
            "Storage",
            on: [
                "Storage", "Engine", "Rules", "Tree", "Journal", "SimulatedDisk", "Reactor", "Time", "Random",
                "Bytes",
            ],
            libraries: [logging]),
        tests(
            "Database",
            on: [
                "Database", "Storage", "Engine", "Rules", "Tree", "Wire", "REST", "HTTP", "Journal",
                "SimulatedDisk", "Reactor", "Time", "Random", "Bytes",
            ],
            c: ["CCounting"], libraries: [logging]),
        tests(
            "Connections",
            on: [
                "Connections", "Database", "Engine", "Rules", "Tree", "Wire", "REST", "WebSocket", "HTTP",
                "Identity", "Reactor", "Time", "Random", "Bytes",
            ]),
        tests("Settings", on: ["Settings"]),
        tests("Log", on: ["Log", "Reactor"]),
        tests("Loops", on: ["Loops", "Connections", "Engine", "Reactor", "Time", "Random", "Bytes"]),
        tests(
            "Administration",
            on: ["Administration", "Loops", "Database", "Engine", "Tree", "Time"], libraries: [logging]),
        tests(
            "Server",
            on: [
                "Server", "Settings", "Storage", "Engine", "Tree", "Journal", "SimulatedDisk", "Reactor",
                "Time",
            ],
            libraries: [logging]),
    ]
)

// The fuzzers (`CONTRIBUTING.md`): only where this names the archive of libFuzzer, which no other build does.
if let fuzzerLibrary = Context.environment["PANDO_FUZZ"] {
    package.products.append(.executable(name: "pando-fuzz", targets: ["PandoFuzz"]))
    package.targets.append(
        .executableTarget(
            name: "PandoFuzz", dependencies: [.byName(name: "PandoFuzzTargets")], path: "Tests/Fuzz/Fuzzer",
            swiftSettings: rules, linkerSettings: [.unsafeFlags([fuzzerLibrary, "-lstdc++"])]))
    for target in package.targets where target.swiftSettings != nil {
        // What libFuzzer sees of the branches that an input takes.
        target.swiftSettings?.append(
            .unsafeFlags(["-sanitize-coverage=edge,inline-8bit-counters,pc-table,trace-cmp"]))
    }
}
