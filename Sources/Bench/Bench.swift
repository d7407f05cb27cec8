import ArgumentParser

//  `pando-bench`: measures servers over real sockets with the load generator of `PandoTraffic`.
//
//  Enters:  a server that listens (`echo`, `broadcast`: pando-echo; `fan-out`, `writes`: pando), or for `run`
//  the
//           folder with both. `micro` needs no server: it calls pure modules; nor does `machine`.
//  Leaves:  rates, latencies, processor time; exit 1 if a message was missing, doubled, out of order or
//  changed. Start at Measured.swift (what is measured), then Suite.swift and Run.swift.
//
//  Client and server share the machine's processors, so absolute numbers say as much about the client as
//  about the server. Compare numbers of one run: that is what `run` prints. The client's own processor time
//  is shown: when it is near 100 %, its one thread is the limit.

@main
struct Bench: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pando-bench",
        abstract: "Measures pando and pando-echo over real sockets.",
        subcommands: [
            Echo.self, Broadcast.self, FanOut.self, Writes.self, Run.self, Micro.self, Machine.self,
        ]
    )
}
