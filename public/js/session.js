// Who is signed in, as whom the console acts, and REST. Credentials are in memory, and in sessionStorage on request:
// never in a URL, never in localStorage.

import {Database, DatabaseError} from "./realtime.js"
import {parse, stringify} from "./json.js"
import {encodePath, split} from "./keys.js"

export const STORED = "pando-credential"

export const restPath = path => `/${encodePath(split(path))}.json`
const offline = () => new DatabaseError("offline", "The server does not answer.")

// The text of a response, as it comes.
export async function* textOf(response) {
	const reader = response.body.pipeThrough(new TextDecoderStream()).getReader()
	try {
		for (let part; !(part = await reader.read()).done;) yield part.value
	} finally {
		reader.cancel().catch(() => {})
	}
}

export class Emitter extends EventTarget {
	on(name, run, options) {
		this.addEventListener(name, ({detail}) => run(detail), options)
	}

	emit(name, detail) {
		this.dispatchEvent(new CustomEvent(name, {detail}))
	}
}

class Session extends Emitter {
	credential = null // of the person at the console
	isAdmin = false
	databases // [{name}], for administrators
	namespace = "default"
	actor = {kind: "self"} // or {kind: "anonymous"}, {kind: "token", token}, {kind: "user", auth}
	database = null // the connection as the actor

	get isActing() {
		return this.actor.kind !== "self"
	}

	get actorName() {
		const {kind, auth = this.auth} = this.actor
		if (kind === "self" && this.isAdmin) return "administrator"
		return {anonymous: "anonymous", token: "a token"}[kind] ?? auth?.uid ?? "a user"
	}

	get actorAuth() {
		return this.actor.kind === "anonymous" ? null : this.actor.auth ?? this.database.auth ?? null
	}

	connect() {
		return new Promise((resolve, reject) => this.open((state, error) => {
			if (state === "open") resolve()
			else if (state !== "connecting") reject(state === "refused" ? error : offline())
		})).catch(error => {
			this.database.close()
			throw error
		})
	}

	async signIn(credential, isKept) {
		Object.assign(this, {credential, actor: {kind: "self"}})
		await this.connect()
		this.auth = this.database.auth
		// With --dev everybody gets the names of databases; the log, from its end on, only administrators.
		const answers = [this.inspect("databases"), this.inspect("log", {after: Number.MAX_SAFE_INTEGER})]
		this.databases = await Promise.all(answers).then(([found]) => found, error => {
			if (error.code !== "permission_denied") throw error
		})
		this.isAdmin = this.databases !== undefined
		if (isKept) sessionStorage.setItem(STORED, credential)
		this.emit("database")
	}

	signOut() {
		sessionStorage.clear()
		this.database?.close()
		location.reload()
	}

	open(onState) {
		this.database?.close()
		let database
		database = this.database = new Database({url: location.origin.replace(/^http/, "ws"), namespace: this.namespace, ...this.rights(), onState: (state, error) => {
			if (database !== this.database && state !== "connecting") return
			onState?.(state, error)
			this.emit("state", {state, error})
		}})
		this.emit("database")
	}

	// The credential, and whom an administrator acts as.
	rights({kind, token, auth} = this.actor) {
		const {credential, isAdmin} = this
		return {self: {credential}, token: {credential: token}, user: {credential, override: auth}, anonymous: isAdmin ? {credential, override: null} : {}}[kind]
	}

	async actAs(actor) {
		const before = this.actor
		this.actor = actor
		try {
			await this.connect()
		} catch (error) {
			this.actor = before
			this.open()
			throw error
		}
	}

	use(namespace) {
		this.namespace = namespace
		this.open()
	}

	request(path, parameters, {asSelf, method, body, headers, signal} = {}) {
		const query = new URLSearchParams({ns: this.namespace, ...parameters})
		const {credential, override} = this.rights(asSelf ? {kind: "self"} : this.actor)
		if (override !== undefined) query.set("auth_variable_override", JSON.stringify(override))
		return fetch(`${path}?${query}`, {
			method, body, signal, cache: "no-store", credentials: "omit", referrerPolicy: "no-referrer",
			headers: {...(credential && {Authorization: `Bearer ${credential}`}), ...headers},
		})
	}

	// As `request`; throws a DatabaseError with the server's words for an error.
	async response(path, parameters, options) {
		const response = await this.request(path, parameters, options).catch(error => {
			throw error.name === "AbortError" ? error : offline()
		})
		if (response.ok) return response
		const text = await response.text()
		let words = text
		try { words = JSON.parse(text).error ?? text } catch { /* not JSON */ }
		throw new DatabaseError({401: "permission_denied", 412: "datastale"}[response.status] ?? `http_${response.status}`, words)
	}

	// The JSON of a response; undefined where its text is longer than `limit`.
	async json(path, parameters, {limit = Infinity, ...options} = {}) {
		let text = ""
		for await (const part of textOf(await this.response(path, parameters, options))) if ((text += part).length > limit) return
		return text && parse(text)
	}

	read(path, limit) {
		return this.json(restPath(path), {format: "export"}, {limit})
	}

	children(path, parameters) {
		return this.json("/.inspect/children.json", {path, ...parameters})
	}

	inspect(name, parameters, options) {
		return this.json(`/.inspect/${name}.json`, parameters, {...options, asSelf: true})
	}

	evaluate(question) {
		return this.inspect("evaluate", {}, {method: "POST", body: stringify(question)})
	}

	// Writes at, above and below a path; `value` is what it held `at` a moment, or holds now.
	history(path, parameters, signal) {
		return this.inspect("history", {path, format: "export", ...parameters}, {signal})
	}
}

export const session = new Session()

// The address of a page: behind the `#`, so that it never reaches the server.
export const link = (page, keys = [], namespace = session.namespace) => `#/${[page, namespace, ...keys].map(encodeURIComponent).join("/")}`
