import {session, textOf, Emitter} from "./session.js"
import {h, visible, format} from "./dom.js"
import {isOnOneWay} from "./keys.js"

const RETRY_MS = 2000
const PAUSE_FACTOR = 10 // between two readings, which may be of all the journal

class Feed extends Emitter {
	async start() {
		this.abort?.abort()
		const {signal} = (this.abort = new AbortController())
		while (session.isAdmin && !signal.aborted) {
			try {
				const response = await session.request("/.settings/profile.json", {}, {asSelf: true, signal, headers: {Accept: "text/event-stream"}})
				if (response.ok) {
					this.emit("open")
					await this.read(response)
				}
			} catch { /* tried again */ }
			await new Promise(resolve => setTimeout(resolve, RETRY_MS))
		}
	}

	async read(response) {
		let rest = ""
		for await (const text of textOf(response)) {
			const blocks = (rest + text).split("\n\n")
			rest = blocks.pop()
			const detail = blocks.filter(block => block.startsWith("event: log")).map(block => JSON.parse(block.slice(block.indexOf("data: ") + 6)))
			if (detail.length) this.emit("records", detail)
		}
	}
}

export const isWrite = record => /write|update|transaction|on-disconnect/.test(record.name) && record.allowed !== false

export const writerName = ({by, uid}) => by === "user" ? `uid ${visible(uid ?? "")}` : by === "anonymous" ? "not signed in" : by

export function writeParts(write, from) {
	const {time, onDisconnect, path, count} = write
	const writer = writerName(write)
	const place = path === from ? "this node" : path.startsWith(from) ? visible(path.slice(from.length > 1 ? from.length : 0)) : "above it"
	return [h("time", format.moment(time)), h("b", {title: writer}, writer, onDisconnect && " (onDisconnect)"), h("span.write-path", place, count > 1 && ` and ${format.count(count - 1)} more`)]
}

// Reads the journal by `read(signal)`, one at a time: `delay` ms after writes to the keys of `shown()`, a tenth of the time at most.
export function journalReader(delay, shown, read) {
	let timer, reading, isStale, until = 0
	const stop = () => {
		reading?.abort()
		clearTimeout(timer)
		reading = timer = undefined
	}
	const now = async () => {
		stop()
		const {signal} = (reading = new AbortController())
		const began = performance.now()
		isStale = false
		await read(signal)
		if (signal.aborted) return
		const ended = performance.now()
		until = ended + PAUSE_FACTOR * (ended - began)
		reading = undefined
		if (isStale) later()
	}
	const soon = (wait = delay) => {
		clearTimeout(timer)
		timer = setTimeout(now, wait)
	}
	const later = (wait = delay) => {
		if (reading) isStale = true
		else if (!timer) soon(Math.max(wait, until - performance.now()))
	}
	feed.on("records", records => {
		const keys = shown()
		if (keys && records.some(record => isWrite(record) && isOnOneWay(keys, record.path ?? []))) later()
	})
	return {now, later, soon, stop}
}

export const feed = new Feed()
session.on("database", () => feed.start())
