// Every operation on the database as it happens: the event stream of /.settings/profile.json, for administrators.

import { session } from "./session.js";
import { h, visible, formatCount, formatMoment } from "./dom.js";

const RETRY_MS = 2000;
const PAUSE_FACTOR = 10; // between two readings of the log, which may be of all of it

class Feed extends EventTarget {
	/** Reads the stream of the session's database until another call, or `abort`. */
	async start() {
		this.abort?.abort();
		const { signal } = (this.abort = new AbortController());
		while (session.isAdmin && !signal.aborted) {
			try {
				const response = await session.request("/.settings/profile.json", {}, { asSelf: true, signal, headers: { Accept: "text/event-stream" } });
				if (response.ok) {
					this.dispatchEvent(new Event("open"));
					await this.read(response.body.pipeThrough(new TextDecoderStream()).getReader());
				}
			} catch { /* tried again */ }
			await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
		}
	}

	async read(reader) {
		let rest = "";
		while (true) {
			const { value, done } = await reader.read();
			if (done) return;
			const blocks = (rest + value).split("\n\n");
			rest = blocks.pop();
			const detail = blocks.filter((block) => block.startsWith("event: log")).map((block) => JSON.parse(block.slice(block.indexOf("data: ") + 6)));
			if (detail.length) this.dispatchEvent(new CustomEvent("records", { detail }));
		}
	}
}

/** Whether a record says that data may have changed. */
export const isWrite = (record) => /write|update|transaction|on-disconnect/.test(record.name) && record.allowed !== false;

/** Whether a record is a write at, above or below a path. */
export const concerns = (record, keys) => isWrite(record) && keys.every((key, place) => place >= (record.path ?? []).length || record.path[place] === key);

/** When, by whom and where a write of the log was made, seen from a path. */
export function writeParts({ time, by, uid, onDisconnect, path, count }, from) {
	const writer = by === "user" ? `uid ${visible(uid ?? "", 60)}` : by === "anonymous" ? "not signed in" : by;
	const place = path === from ? "this node" : path.startsWith(from) ? visible(path.slice(from.length > 1 ? from.length : 0), 80) : "above it";
	return [h("time", formatMoment(time)), h("b", writer, onDisconnect && " (onDisconnect)"), h("span.write-path", place, count > 1 && ` and ${formatCount(count - 1)} more`)];
}

/** Reads the log, one reading at a time: after writes so seldom that it takes a tenth of the time. */
export class LogReader {
	until = 0; // when the pause behind the latest reading ends

	/** `read(signal, …)` reads; `delay` is in milliseconds from a write until then. */
	constructor(delay, read) {
		Object.assign(this, { delay, read });
	}

	stop() {
		this.reading?.abort();
		clearTimeout(this.timer);
		this.timer = undefined;
		this.isReading = false;
	}

	soon(delay) {
		if (this.timer !== undefined && this.due <= performance.now() + delay) return;
		clearTimeout(this.timer);
		this.due = performance.now() + delay;
		this.timer = setTimeout(() => {
			this.timer = undefined;
			this.now();
		}, delay);
	}

	/** Reads behind the reading in progress, and behind the pause. */
	later(delay = this.delay) {
		this.isStale = this.isReading;
		if (!this.isReading) this.soon(Math.max(delay, this.until - performance.now()));
	}

	async now(...parameters) {
		this.reading?.abort();
		const { signal } = (this.reading = new AbortController());
		const began = performance.now();
		[this.isReading, this.isStale] = [true, false];
		await this.read(signal, ...parameters);
		if (signal.aborted) return;
		this.isReading = false;
		const ended = performance.now();
		this.until = ended + PAUSE_FACTOR * (ended - began);
		if (this.isStale) this.later();
	}
}

export const feed = new Feed();
session.addEventListener("database", () => feed.start());
