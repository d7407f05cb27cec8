import PandoSettings
import Testing

@Suite struct ConfigurationTests {
    @Test func memoryLimitIsAShareOfTheMachineUnlessItIsGiven() {
        var configuration = Configuration()
        #expect(configuration.effectiveMemoryByteLimit >= Configuration.memoryByteMinimum)
        configuration.memoryByteLimit = 123 << 20
        #expect(configuration.effectiveMemoryByteLimit == 123 << 20)
    }
}
