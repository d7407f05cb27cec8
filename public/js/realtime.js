// A client of the realtime protocol (docs/protocol/realtime.md) in one file. It writes nothing while it is offline.
//
//   const database = new Database({ url: "ws://127.0.0.1:9000", namespace: "default", credential: "owner" });
//   const stop = database.listen("/users/ada", null, (value) => console.log(value), (error) => console.log(error));
//   await database.set("/users/ada/name", "Ada");
//
// Values are in the export form: a leaf, or an object of children; with a priority {".value":…, ".priority":…}.

import { parse, stringify, assign, own } from "./json.js";

const CHUNK_UNITS = 16384; // of a frame
const KEEPALIVE_MS = 45000;
const CONNECT_TIMEOUT_MS = 15000;
const FIRST_DELAY_MS = 300;
const LAST_DELAY_MS = 8000;

/** What the server, or the connection, answered in place of "ok". `code` is the protocol's: "permission_denied", … */
export class DatabaseError extends Error {
	constructor(code, message, detail) {
		super(message || code);
		this.code = code;
		this.detail = detail;
	}
}

export class Database {
	/** `credential` is a token or secret, or null; `override` is the `auth` that an administrator acts as. */
	constructor({ url, namespace, credential = null, override = undefined, onState = () => {} }) {
		Object.assign(this, { url, namespace, credential, override, onState });
		this.state = "connecting"; // "open", "waiting" (for the next try), "refused" (the credential is), "closed"
		this.listens = new Map(); // by tag
		this.requests = new Map(); // by number: {resolve, reject}
		this.nextNumber = 1;
		this.nextTag = 1;
		this.delay = FIRST_DELAY_MS;
		this.clockOffset = 0;
		this.connect();
	}

	/** The server's clock in milliseconds. */
	get now() {
		return Date.now() + this.clockOffset;
	}

	// MARK: The connection

	connect() {
		this.setState("connecting");
		const previous = this.session ? `&ls=${encodeURIComponent(this.session)}` : "";
		const socket = new WebSocket(`${this.url}/.ws?v=5&ns=${encodeURIComponent(this.namespace)}${previous}`);
		this.socket = socket;
		this.collected = null; // chunks of a message, {left, parts}
		const timeout = setTimeout(() => socket.close(), CONNECT_TIMEOUT_MS);
		socket.onmessage = (event) => socket === this.socket && this.receiveFrame(event.data);
		socket.onclose = () => {
			clearTimeout(timeout);
			if (socket === this.socket) this.lost();
		};
		this.connectTimeout = timeout;
	}

	async greeted(hello) {
		clearTimeout(this.connectTimeout);
		this.session = hello.s;
		this.clockOffset = hello.ts - Date.now();
		this.keepalive = setInterval(() => this.socket.send("0"), KEEPALIVE_MS);
		const socket = this.socket;
		// Requests are processed in order: the listens behind the sign-in need not wait for its answer.
		const signedIn = this.credential === null ? Promise.resolve({}) : this.request("auth", this.authentication());
		for (const listen of this.listens.values()) this.sendListen(listen);
		try {
			this.auth = (await signedIn).auth ?? null;
		} catch (error) {
			if (socket === this.socket && error.code !== "disconnected") this.refused(error);
			return;
		}
		if (socket !== this.socket) return;
		this.delay = FIRST_DELAY_MS;
		this.setState("open");
	}

	authentication() {
		if (this.override === undefined) return { cred: this.credential };
		return this.override === null ? { cred: this.credential, noauth: true } : { cred: this.credential, authvar: this.override };
	}

	refused(error) {
		this.close();
		this.setState("refused", error);
	}

	lost() {
		clearInterval(this.keepalive);
		this.socket = null;
		const error = new DatabaseError("disconnected", "The connection was lost. What was sent may or may not have been done.");
		for (const request of this.requests.values()) request.reject(error);
		this.requests.clear();
		if (this.state === "closed" || this.state === "refused") return;
		this.setState("waiting");
		this.retry = setTimeout(() => this.connect(), this.delay * (0.75 + Math.random() / 2));
		this.delay = Math.min(LAST_DELAY_MS, this.delay * 1.5);
	}

	close() {
		clearTimeout(this.retry);
		this.state = "closed";
		const socket = this.socket;
		if (!socket) return;
		this.lost();
		socket.close();
	}

	setState(state, error) {
		this.state = state;
		this.onState(state, error);
	}

	// MARK: Frames and messages

	receiveFrame(text) {
		if (this.collected) {
			this.collected.parts.push(text);
			if (--this.collected.left > 0) return;
			text = this.collected.parts.join("");
			this.collected = null;
		} else if (text.length <= 6 && Number(text) > 0) {
			this.collected = { left: Number(text), parts: [] };
			return;
		}
		const message = parse(text);
		if (message.t === "c") this.control(message.d);
		else this.receive(message.d);
	}

	control({ t: verb, d: payload }) {
		if (verb === "h") this.greeted(payload);
		else if (verb === "s") this.refused(new DatabaseError("shutdown", payload));
	}

	receive({ r: number, a: action, b: body }) {
		if (number !== undefined) {
			const request = this.requests.get(number);
			this.requests.delete(number);
			if (body.s === "ok") request?.resolve(body.d);
			else request?.reject(new DatabaseError(body.s, typeof body.d === "string" ? body.d : "", body.d));
		} else if (action === "d" || action === "m") this.receiveData(body, action === "m");
		else if (action === "c") this.revoked(body);
		else if (action === "ac") this.refused(new DatabaseError(body.s, body.d));
	}

	/** Sends a request; its answer's `d`, or a DatabaseError. */
	request(action, body) {
		return new Promise((resolve, reject) => {
			if (this.socket?.readyState !== WebSocket.OPEN) {
				return reject(new DatabaseError("offline", "There is no connection to the server."));
			}
			const number = this.nextNumber++;
			this.requests.set(number, { resolve, reject });
			const text = stringify({ t: "d", d: { r: number, a: action, b: body } });
			if (text.length <= CHUNK_UNITS) return this.socket.send(text);
			const chunks = [];
			for (let start = 0; start < text.length;) {
				let end = Math.min(text.length, start + CHUNK_UNITS);
				if (text.charCodeAt(end - 1) >> 10 === 0x36) end--; // not inside a surrogate pair
				chunks.push(text.slice(start, end));
				start = end;
			}
			this.socket.send(String(chunks.length));
			for (const chunk of chunks) this.socket.send(chunk);
		});
	}

	// MARK: Listening

	/**
	 * Calls `onValue` with the value at the path, or with the children that `query` selects, now and after each change.
	 * `onEnd` gets a DatabaseError where the listen is refused or revoked. The result ends it.
	 */
	listen(path, query, onValue, onEnd = () => {}) {
		const listen = { path, query, onValue, onEnd, tag: this.nextTag++, value: null, names: path.split("/").filter(Boolean) };
		this.listens.set(listen.tag, listen);
		if (this.socket?.readyState === WebSocket.OPEN && this.session) this.sendListen(listen);
		return () => {
			if (!this.listens.delete(listen.tag)) return;
			if (this.socket?.readyState !== WebSocket.OPEN) return;
			// Another default listen of this path stays.
			if (!query && [...this.listens.values()].some((other) => !other.query && other.path === path)) return;
			this.request("n", query ? { p: path, q: query, t: listen.tag } : { p: path }).catch(() => {});
		};
	}

	async sendListen(listen) {
		const body = listen.query ? { p: listen.path, q: listen.query, t: listen.tag } : { p: listen.path };
		try {
			await this.request("q", body);
		} catch (error) {
			if (error.code === "disconnected" || error.code === "offline") return; // it is sent again
			if (this.listens.delete(listen.tag)) listen.onEnd(error);
		}
	}

	receiveData({ p: path, d: data, t: tag }, isMerge) {
		const base = path.split("/").filter(Boolean);
		for (const listen of tag === undefined ? this.listens.values() : [this.listens.get(tag)]) {
			if (!listen || (tag === undefined && listen.query)) continue;
			let isChanged = false;
			for (const [names, value] of isMerge ? Object.entries(data).map(([name, value]) => [[...base, ...name.split("/").filter(Boolean)], value]) : [[base, data]]) {
				const depth = listen.names.length;
				if (names.length < depth || !listen.names.every((name, index) => name === names[index])) continue;
				listen.value = replace(listen.value, names.slice(depth), value);
				isChanged = true;
			}
			if (isChanged) listen.onValue(listen.value);
		}
	}

	revoked({ p: path }) {
		const names = path.split("/").filter(Boolean).join("/");
		for (const listen of [...this.listens.values()]) {
			if (listen.names.join("/") !== names) continue;
			this.listens.delete(listen.tag);
			listen.onEnd(new DatabaseError("permission_denied", "Permission denied"));
		}
	}

	// MARK: Reading and writing

	/** The value at the path, or the children that `query` selects. */
	get(path, query = {}) {
		return this.request("g", { p: path, q: query });
	}

	/** Replaces the value at the path; with `ifHash` only where the present value has that hash ("" is none). */
	set(path, value, ifHash = undefined) {
		return this.request("p", ifHash === undefined ? { p: path, d: value } : { p: path, d: value, h: ifHash });
	}

	/** Replaces the values at several paths below `path` in one step. */
	update(path, values) {
		return this.request("m", { p: path, d: values });
	}
}

/** The value with another one at a path inside it, in the export form. Copies what it changes. */
function replace(value, names, inner) {
	if (names.length === 0) return inner;
	const [name, ...rest] = names;
	const copy = {};
	const isObject = value !== null && typeof value === "object" && !Object.hasOwn(value, ".value");
	if (isObject) for (const key of Object.keys(value)) assign(copy, key, value[key]);
	else if (value !== null && typeof value === "object") assign(copy, ".priority", own(value, ".priority"));
	if (name === ".priority") {
		const plain = isObject ? copy : { ".value": own(value ?? {}, ".value") ?? value };
		if (inner === null) delete plain[".priority"];
		else plain[".priority"] = inner;
		return Object.hasOwn(plain, ".value") && inner === null ? plain[".value"] : plain;
	}
	const child = replace(own(copy, name) ?? null, rest, inner);
	if (child === null) delete copy[name];
	else assign(copy, name, child);
	return Object.keys(copy).some((key) => key !== ".priority") ? copy : null;
}
