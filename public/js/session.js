// Who is signed in, as whom the console acts, and REST requests. Credentials are in memory, and in sessionStorage where the
// user asks for it: never in a URL, never in localStorage.

import { Database, DatabaseError } from "./realtime.js";
import { parse } from "./json.js";
import { encodePath, split } from "./keys.js";

export const STORED = "pando-credential";

export const restPath = (path) => `/${encodePath(split(path))}.json`;

class Session extends EventTarget {
	constructor() {
		super();
		this.credential = null; // of the person at the console
		this.isAdmin = false;
		this.namespace = "default";
		this.actor = { kind: "self" }; // or {kind: "anonymous"}, {kind: "token", token}, {kind: "user", auth}
		this.database = null; // the connection as the actor
	}

	get isActing() {
		return this.actor.kind !== "self";
	}

	get actorName() {
		const { kind, auth } = this.actor;
		if (kind === "anonymous") return "nobody (not signed in)";
		if (kind === "user") return auth.uid ?? "a user";
		if (kind === "token") return "a token";
		return this.isAdmin ? "administrator" : this.auth?.uid ?? "a user";
	}

	async signIn(credential, { isKept = false } = {}) {
		const answer = await new Promise((resolve, reject) => {
			const database = new Database({
				url: this.socketURL, namespace: this.namespace, credential, onState: (state, error) => {
					if (state === "open") resolve(database.auth);
					else if (state === "refused") reject(error);
					else if (state === "waiting") reject(new DatabaseError("offline", "The server does not answer."));
					else return;
					setTimeout(() => database.close());
				},
			});
		});
		this.credential = credential;
		this.auth = answer;
		this.isAdmin = (await this.request("/.inspect/databases.json", {}, { asSelf: true })).ok;
		if (isKept) sessionStorage.setItem(STORED, credential);
		this.actor = { kind: "self" };
		this.open();
	}

	signOut() {
		sessionStorage.removeItem(STORED);
		this.database?.close();
		location.reload();
	}

	open() {
		this.database?.close();
		const options = { url: this.socketURL, namespace: this.namespace, onState: (state, error) => {
			if (database === this.database || state === "connecting") this.dispatchEvent(new CustomEvent("state", { detail: { state, error } }));
		} };
		const { kind, token, auth } = this.actor;
		if (kind === "self") options.credential = this.credential;
		else if (kind === "token") options.credential = token;
		else if (kind === "user") Object.assign(options, { credential: this.credential, override: auth });
		else if (this.isAdmin) Object.assign(options, { credential: this.credential, override: null });
		let database = null;
		database = this.database = new Database(options);
		this.dispatchEvent(new Event("database"));
	}

	actAs(actor) {
		this.actor = actor;
		this.open();
	}

	use(namespace) {
		if (namespace === this.namespace) return;
		this.namespace = namespace;
		this.open();
	}

	get socketURL() {
		return location.origin.replace(/^http/, "ws");
	}

	request(path, parameters = {}, { asSelf = false, method = "GET", body, headers = {}, signal } = {}) {
		const query = new URLSearchParams({ ns: this.namespace, ...parameters });
		const { kind, token, auth } = asSelf ? { kind: "self" } : this.actor;
		const credential = kind === "token" ? token : this.credential;
		if (kind === "user") query.set("auth_variable_override", JSON.stringify(auth));
		if (kind === "anonymous" && this.isAdmin) query.set("auth_variable_override", "null");
		const isSigned = credential !== null && (kind !== "anonymous" || this.isAdmin);
		return fetch(`${path}?${query}`, {
			method, body, signal, cache: "no-store", credentials: "omit", referrerPolicy: "no-referrer",
			headers: { ...(isSigned ? { Authorization: `Bearer ${credential}` } : {}), ...headers },
		});
	}

	async json(path, parameters, options) {
		let response;
		try {
			response = await this.request(path, parameters, options);
		} catch (error) {
			if (error.name === "AbortError") throw error;
			throw new DatabaseError("offline", "The server does not answer.");
		}
		const text = await response.text();
		if (response.ok) return text === "" ? null : parse(text);
		let words = text;
		try { words = JSON.parse(text).error ?? text; } catch { /* not JSON */ }
		throw new DatabaseError(response.status === 401 ? "permission_denied" : `http_${response.status}`, words);
	}

	read(path) {
		return this.json(restPath(path), { format: "export" });
	}

	/** Whether no rules stand between the console and the data. */
	get seesAll() {
		return this.isAdmin && !this.isActing;
	}

	/** What only administrators may ask, whoever they act as. */
	inspect(name, parameters, options) {
		return this.json(`/.inspect/${name}.json`, parameters, { ...options, asSelf: true });
	}

	denials() {
		return this.inspect("denials");
	}

	children(path, parameters) {
		return this.inspect("children", { path, ...parameters });
	}

	/** Writes at, above and below a path; `value` is what it held `at` a moment, or holds now. */
	history(path, parameters, signal) {
		return this.inspect("history", { path, format: "export", ...parameters }, { signal });
	}

	async databases() {
		if (!this.isAdmin) return [this.namespace];
		const names = (await this.inspect("databases")).map((entry) => entry.name);
		return names.includes(this.namespace) ? names : [...names, this.namespace].sort();
	}
}

export const session = new Session();

/** The address of a page: behind the `#`, so that it never reaches the server. */
export const link = (page, keys = [], namespace = session.namespace) => `#/${[page, namespace, ...keys].map(encodeURIComponent).join("/")}`;
