import PandoBytes

// Packs the 20 characters of a push id into 120 bits (realtime §13.2), eight characters at a time.
//
//     -  0…9  A…Z  _  a…z       the alphabet, in ASCII order: packed numbers have the order of the texts
//     0  1…10 11…36 37 38…63    six bits each
//
// A word has eight characters, the first one in its highest byte; each operation below works on all eight at
// once (Hacker's Delight, chapter 2). No byte exceeds 7F, so that additions do not carry into the next byte.

/// Characters of a push id.
let sixBitTextCount = 20

/// Packs eight characters into 48 bits; nil when one of them is not in the alphabet.
@inline(__always)
func sixBits(of word: UInt64) -> UInt64? {
    guard word & everyByte(0x80) == 0, bytesFrom(0x2D, word) == everyByte(1) else { return nil }
    let digits =
        word &- everyByte(0x2D) &- 2 &* bytesFrom(0x30, word) &- 7 &* bytesFrom(0x41, word)
        &- 4 &* bytesFrom(0x5F, word) &- bytesFrom(0x61, word)
    // A character between the alphabet's runs is converted back to another one.
    guard digits & everyByte(0xC0) == 0, characters(of: digits) == word else { return nil }
    let pairs = digits & 0x003F_003F_003F_003F | digits >> 2 & 0x0FC0_0FC0_0FC0_0FC0
    let fours = pairs & 0x0000_0FFF_0000_0FFF | pairs >> 4 & 0x00FF_F000_00FF_F000
    return fours & 0xFF_FFFF | fours >> 8 & 0xFFFF_FF00_0000
}

/// Unpacks 48 bits to eight characters.
@inline(__always)
func sixBitCharacters(_ bits: UInt64) -> UInt64 {
    let fours = bits & 0xFF_FFFF | bits << 8 & 0x00FF_FFFF_0000_0000
    let pairs = fours & 0x0000_0FFF_0000_0FFF | fours << 4 & 0x0FFF_0000_0FFF_0000
    return characters(of: pairs & 0x003F_003F_003F_003F | pairs << 2 & 0x3F00_3F00_3F00_3F00)
}

/// The characters of eight numbers below 64.
@inline(__always)
private func characters(of digits: UInt64) -> UInt64 {
    digits &+ everyByte(0x2D) &+ 2 &* bytesFrom(1, digits) &+ 7 &* bytesFrom(11, digits)
        &+ 4 &* bytesFrom(37, digits) &+ bytesFrom(38, digits)
}

/// 1 in each byte that is at least `least`, 0 in the others. No byte may exceed 7F.
@inline(__always)
private func bytesFrom(_ least: UInt64, _ word: UInt64) -> UInt64 {
    (word &+ everyByte(0x80 &- least)) >> 7 & everyByte(1)
}
