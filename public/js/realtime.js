// A client of the realtime protocol (docs/protocol/realtime.md, docs/console.md); json.js is all it needs. It writes nothing while offline.
// Values are in the export form: a leaf, or an object of children; with a priority {".value":…, ".priority":…}.

import {parse, stringify, isObject, own} from "./json.js"

const CHUNK_UNITS = 16384 // of a frame
const CHUNK = /[^]{1,8192}/gu // characters, of two units at most: none is cut
const KEEPALIVE_MS = 45000
const CONNECT_TIMEOUT_MS = 15000
const FIRST_DELAY_MS = 300
const LAST_DELAY_MS = 8000

const split = path => path.split("/").filter(Boolean)
const wireListen = ({path, query, tag}) => (query ? {p: path, q: query, t: tag} : {p: path})

/** What was answered in place of "ok"; `code` is the protocol's: "permission_denied", … */
export class DatabaseError extends Error {
	constructor(code, message) {
		super(message || code)
		this.code = code
	}
}

export class Database {
	state = "connecting" // "open", "waiting" (for the next try), "refused" (the credential is), "closed"
	listens = new Map() // by tag
	requests = new Map() // by number: {resolve, reject}
	nextNumber = 1
	nextTag = 1
	delay = FIRST_DELAY_MS
	clockOffset = 0

	/** `credential` is a token or secret, or null; `override` is the `auth` that an administrator acts as. */
	constructor({url, namespace, credential = null, override, onState = () => {}}) {
		Object.assign(this, {url, namespace, credential, override, onState})
		this.connect()
	}

	get now() {
		return Date.now() + this.clockOffset
	}

	connect() {
		this.setState("connecting")
		const previous = this.session ? `&ls=${encodeURIComponent(this.session)}` : ""
		const socket = new WebSocket(`${this.url}/.ws?v=5&ns=${encodeURIComponent(this.namespace)}${previous}`)
		this.socket = socket
		this.collected = null // chunks of a message, {left, parts}
		this.isUnanswered = false
		this.connectTimeout = setTimeout(() => socket.close(), CONNECT_TIMEOUT_MS)
		socket.onmessage = event => socket === this.socket && this.receiveFrame(event.data)
		socket.onclose = () => socket === this.socket && this.lost()
	}

	async greeted(hello) {
		clearTimeout(this.connectTimeout)
		this.session = hello.s
		this.clockOffset = hello.ts - Date.now()
		const {socket, credential: cred, override} = this
		this.keepalive = setInterval(() => this.probe(), KEEPALIVE_MS)
		// Requests are processed in order: the listens need not wait for the answer.
		const signedIn = cred === null ? Promise.resolve({}) : this.request("auth", {cred, ...(override === null ? {noauth: true} : override && {authvar: override})})
		for (const listen of this.listens.values()) this.sendListen(listen)
		try {
			this.auth = (await signedIn).auth ?? null
		} catch (error) {
			if (socket === this.socket && error.code !== "disconnected") this.refused(error)
			return
		}
		if (socket !== this.socket) return
		this.delay = FIRST_DELAY_MS
		this.setState("open")
	}

	/** Asks for an answer; without one to the last the connection is dead, as after a sleep. */
	probe() {
		if (this.isUnanswered && this.socket.bufferedAmount === 0) return this.drop()
		this.isUnanswered = true
		this.request("s", {c: {}}).then(() => (this.isUnanswered = false), () => {})
	}

	refused(error) {
		this.close()
		this.setState("refused", error)
	}

	lost() {
		clearTimeout(this.connectTimeout)
		clearInterval(this.keepalive)
		this.socket = null
		const error = new DatabaseError("disconnected", "The connection was lost. What was sent may or may not have been done.")
		for (const request of this.requests.values()) request.reject(error)
		this.requests.clear()
		if (/closed|refused/.test(this.state)) return
		this.setState("waiting")
		this.retry = setTimeout(() => this.connect(), this.delay * (0.75 + Math.random() / 2))
		this.delay = Math.min(LAST_DELAY_MS, this.delay * 1.5)
	}

	close() {
		clearTimeout(this.retry)
		this.state = "closed"
		if (this.socket) this.drop()
	}

	drop() {
		const {socket} = this
		this.lost() // now: a dead peer answers no close
		socket.close()
	}

	setState(state, error) {
		this.state = state
		this.onState(state, error)
	}

	receiveFrame(text) {
		if (this.collected) {
			this.collected.parts.push(text)
			if (--this.collected.left > 0) return
			text = this.collected.parts.join("")
			this.collected = null
		} else if (text.length <= 6 && Number(text) > 0) {
			this.collected = {left: Number(text), parts: []}
			return
		}
		const message = parse(text)
		const {t: verb, d: payload} = message.d
		if (message.t === "d") this.receive(message.d)
		else if (verb === "h") this.greeted(payload)
		else if (verb === "s") this.refused(new DatabaseError("shutdown", payload))
	}

	receive({r: number, a: action, b: body}) {
		if (number !== undefined) {
			const request = this.requests.get(number)
			this.requests.delete(number)
			if (body.s === "ok") request?.resolve(body.d)
			else request?.reject(new DatabaseError(body.s, typeof body.d === "string" ? body.d : ""))
		} else if (action === "d" || action === "m") this.receiveData(body, action === "m")
		else if (action === "c") this.revoked(body)
		else if (action === "ac") this.refused(new DatabaseError(body.s, body.d))
	}

	/** Sends a request; its answer's `d`, or a DatabaseError. */
	request(action, body) {
		return new Promise((resolve, reject) => {
			if (this.socket?.readyState !== WebSocket.OPEN) return reject(new DatabaseError("offline", "There is no connection to the server."))
			const number = this.nextNumber++
			this.requests.set(number, {resolve, reject})
			const text = stringify({t: "d", d: {r: number, a: action, b: body}})
			if (text.length <= CHUNK_UNITS) return this.socket.send(text)
			const chunks = text.match(CHUNK)
			for (const frame of [String(chunks.length), ...chunks]) this.socket.send(frame)
		})
	}

	/** Calls `onValue` with the value at the path, or what `query` selects, now and after changes; `onEnd` with an error. The result ends it. */
	listen(path, query, onValue, onEnd = () => {}) {
		const listen = {path, query, onValue, onEnd, tag: this.nextTag++, value: null, isWhole: false, names: split(path)}
		this.listens.set(listen.tag, listen)
		if (this.socket?.readyState === WebSocket.OPEN && this.session) this.sendListen(listen)
		return () => {
			if (!this.listens.delete(listen.tag)) return
			// Another default listen of this path stays.
			if (!query && this.listens.values().some(other => !other.query && other.path === path)) return
			this.request("n", wireListen(listen)).catch(() => {})
		}
	}

	sendListen(listen) {
		listen.isWhole = false
		this.request("q", wireListen(listen)).catch(error => {
			if (/disconnected|offline/.test(error.code)) return // it is sent again
			if (this.listens.delete(listen.tag)) listen.onEnd(error)
		})
	}

	receiveData({p: path, d: data, t: tag}, isMerge) {
		const base = split(path)
		for (const listen of tag === undefined ? this.listens.values() : [this.listens.get(tag)]) {
			if (!listen || (tag === undefined && listen.query)) continue
			let isChanged = false
			for (const [names, value] of isMerge ? Object.entries(data).map(([name, value]) => [[...base, ...split(name)], value]) : [[base, data]]) {
				if (!listen.names.every((name, index) => name === names[index])) continue
				const inner = names.slice(listen.names.length)
				listen.isWhole ||= inner.length === 0
				if (!listen.isWhole) continue // the whole is on its way
				listen.value = replace(listen.value, inner, value)
				isChanged = true
			}
			if (isChanged) listen.onValue(listen.value)
		}
	}

	revoked({p: path}) {
		for (const listen of [...this.listens.values()]) {
			if (listen.names.join("/") !== split(path).join("/")) continue
			this.listens.delete(listen.tag)
			listen.onEnd(new DatabaseError("permission_denied", "Permission denied"))
		}
	}

	/** Replaces the value at the path; with `ifHash` only where the present value has that hash ("" is none). */
	set(path, value, ifHash) {
		return this.request("p", {p: path, d: value, h: ifHash})
	}

	/** Replaces the values at several paths below `path` in one step. */
	update(path, values) {
		return this.request("m", {p: path, d: values})
	}
}

/** The value with another one at a path inside it. Copies what it changes. */
function replace(value, names, inner) {
	if (names.length === 0) return inner
	const [name, ...rest] = names
	const old = isObject(value) ? value : value === null ? {} : {".value": value}
	const copy = {...old, [name]: replace(own(old, name) ?? null, rest, inner)}
	if (name !== ".priority") delete copy[".value"] // a child takes the place of a leaf
	if (copy[name] === null) delete copy[name]
	const left = Object.keys(copy)
	if (left.every(key => key === ".priority")) return null
	return left.length === 1 && left[0] === ".value" ? copy[".value"] : copy
}
