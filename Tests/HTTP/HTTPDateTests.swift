import PandoHTTP
import Testing

private func date(_ seconds: Int64) -> String {
    var bytes: [UInt8] = []
    bytes.append(httpDate: seconds)
    return String(decoding: bytes, as: UTF8.self)
}

@Suite struct HTTPDateTests {
    @Test(arguments: [
        (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
        (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),  // the example of RFC 9110
        (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
        (951_868_799, "Tue, 29 Feb 2000 23:59:59 GMT"),
        (951_868_800, "Wed, 01 Mar 2000 00:00:00 GMT"),
        (4_107_542_399, "Sun, 28 Feb 2100 23:59:59 GMT"),
        (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
        (1_767_225_599, "Wed, 31 Dec 2025 23:59:59 GMT"),
        (253_402_300_799, "Fri, 31 Dec 9999 23:59:59 GMT"),
        (.max, "Fri, 31 Dec 9999 23:59:59 GMT"),
        (-1, "Thu, 01 Jan 1970 00:00:00 GMT"),
    ])
    func knownDates(seconds: Int64, text: String) {
        #expect(date(seconds) == text)
    }

    /// Day by day through four centuries, against a calendar that counts days.
    @Test func consecutiveDays() {
        let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
        let weekdays = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"]
        var (year, month, day) = (1970, 0, 1)
        for count in 0..<146_097 {
            let two = day < 10 ? "0\(day)" : "\(day)"
            let text = "\(weekdays[count % 7]), \(two) \(months[month]) \(year) 00:00:00 GMT"
            guard date(Int64(count) * 86_400) == text else {
                Issue.record("\(text), got \(date(Int64(count) * 86_400))")
                return
            }
            let isLeap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
            let lengths = [31, isLeap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
            day += 1
            if day > lengths[month] { (month, day) = (month + 1, 1) }
            if month == 12 { (year, month) = (year + 1, 0) }
        }
    }
}
