// Every operation on the database as it happens: the event stream of /.settings/profile.json, for administrators.

import { session } from "./session.js";
import { visible } from "./dom.js";

const RETRY_MS = 2000;

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

/** Who made a write, in words. */
export const writerOf = ({ by, uid, onDisconnect }) =>
	(by === "user" ? `uid ${visible(uid ?? "", 60)}` : by === "anonymous" ? "not signed in" : by) + (onDisconnect ? " (onDisconnect)" : "");

export const feed = new Feed();
session.addEventListener("database", () => feed.start());
