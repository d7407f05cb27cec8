// "May this user do this here": asks the server's evaluator about the draft. A question can be kept as a case, which is
// run before rules are published.

import { session } from "./session.js";
import { h, choice, table, save, toast, visible } from "./dom.js";
import { split, join } from "./keys.js";
import { parse, stringify } from "./json.js";
import { readJSON, ruleList } from "./edit.js";

const CASE_LIMIT = 500;
const CAUSES = {
	granted: "rules grant it", administrator: "rules are not asked", open: "there are no rules, and the server runs with --dev",
	locked: "there are no rules", noRule: "no rule on the way", notGranted: "no rule on the way is true", invalid: "a .validate rule is not true",
};
const PLACEHOLDERS = { write: "What is written, as JSON", read: 'No query, or {"orderBy": "$key", "limitToFirst": 10}' };

const isCase = (item) => /^(read|write)$/.test(item?.method) && typeof item.path === "string" && typeof item.allowed === "boolean";
const userOf = ({ auth }) => auth === "admin" ? "administrator" : auth ? visible(auth.uid ?? "", 40) : "not signed in";

export class Playground {
	/** `source()` is the text of the draft; `mark(rules)` shows at their lines what rules gave; `goTo` shows one of them. */
	constructor({ source, mark, goTo }) {
		Object.assign(this, { source, mark, goTo, cases: [] });
		const onchange = () => this.adapt();
		this.user = choice("User", ["not signed in", "uid", "administrator"], { onchange });
		this.uid = h("input", { label: "uid", placeholder: "uid" });
		this.claims = h("input.path-input.grow", { label: "Claims (JSON)", placeholder: 'claims: {"role": "editor"}' });
		this.method = choice("Operation", ["read", "write"], { onchange });
		this.path = h("input.path-input.grow", { label: "Path", value: "/" });
		this.value = h("textarea.code", { rows: 2, label: "Value or query (JSON)" });
		this.result = h("div", { role: "status" });
		this.list = h("div");
		this.file = h("input", { type: "file", accept: ".json", hidden: true, onchange: () => this.open() });
		const button = (label, onclick) => h("button", { onclick }, label);
		this.element = h("div.columns",
			h("form.panel", { onsubmit: (event) => { event.preventDefault(); this.ask(); } }, h("h2", "May this user do this here?"),
				h("div.together", this.user, this.uid, this.claims), h("div.together", this.method, this.path), this.value,
				h("div.together", h("button", { type: "submit" }, "Try"), button("Keep as a case", () => this.keep())), this.result),
			h("section.panel", h("div.together", h("h2.grow", "Cases"), button("Run all", () => this.runAll()), button("Save", () => save("rule-cases.json", this.text)), button("Open…", () => this.file.click()), this.file), this.list));
		try {
			this.cases = parse(sessionStorage.getItem(this.storage) ?? "[]").filter(isCase);
		} catch { /* none */ }
		this.adapt();
		this.draw();
	}

	get storage() {
		return `pando-rule-cases ${session.namespace}`;
	}

	get text() {
		return stringify(this.cases.map(({ outcome, ...item }) => item), 2);
	}

	adapt() {
		this.uid.hidden = this.claims.hidden = this.user.value !== "uid";
		this.value.placeholder = PLACEHOLDERS[this.method.value];
	}

	read() {
		const [method, text] = [this.method.value, this.value.value.trim()];
		const auth = this.user.value === "uid" ? { uid: this.uid.value, token: readJSON(this.claims.value || "{}") } : this.user.value === "administrator" ? "admin" : null;
		return { method, path: join(split(this.path.value)), auth, ...(method === "write" ? { value: readJSON(text || "null") } : text && { query: readJSON(text) }) };
	}

	show({ method, path, auth, value, query }) {
		this.method.value = method;
		this.path.value = path;
		this.user.value = auth === "admin" ? "administrator" : auth ? "uid" : "not signed in";
		this.uid.value = auth?.uid ?? "";
		this.claims.value = auth?.token ? stringify(auth.token) : "";
		this.value.value = method === "write" ? stringify(value ?? null) : query ? stringify(query) : "";
		this.adapt();
		this.ask();
	}

	evaluate({ allowed, outcome, ...item }) {
		return session.inspect("evaluate", {}, { method: "POST", body: stringify({ ...item, rules: this.source() }) });
	}

	async ask() {
		try {
			const answer = await this.evaluate(this.read());
			this.mark(answer.rules);
			const words = `${answer.allowed ? "Allowed" : "Denied"}: ${CAUSES[answer.cause] ?? answer.cause}.`;
			this.result.replaceChildren(h("p", { class: answer.allowed ? "good" : "problem" }, words), ...ruleList(answer.rules, this.goTo));
			return answer;
		} catch (error) {
			this.mark([]);
			this.result.replaceChildren(h("p.problem", error.message));
		}
	}

	async keep() {
		const answer = await this.ask();
		if (!answer) return;
		if (this.cases.length >= CASE_LIMIT) return toast(`There are ${CASE_LIMIT} cases already.`, "error");
		this.cases.push({ ...this.read(), allowed: answer.allowed, outcome: "holds" });
		this.draw();
	}

	/** Runs all cases against the draft; how many do not hold. */
	async runAll() {
		for (const item of [...this.cases]) {
			try {
				const { allowed } = await this.evaluate(item);
				item.outcome = allowed === item.allowed ? "holds" : allowed ? "is allowed" : "is denied";
			} catch (error) {
				item.outcome = error.message;
			}
		}
		this.draw();
		return this.cases.filter(({ outcome }) => outcome !== "holds").length;
	}

	async open() {
		try {
			const cases = readJSON(await this.file.files[0].text());
			if (!Array.isArray(cases) || cases.length > CASE_LIMIT || !cases.every(isCase)) throw new Error(`This is no list of at most ${CASE_LIMIT} cases.`);
			this.cases = cases;
			await this.runAll();
		} catch (error) {
			toast(error.message, "error");
		}
		this.file.value = "";
	}

	/** The draft is another one: no outcome is known. */
	changed() {
		for (const item of this.cases) item.outcome = undefined;
		this.draw();
	}

	draw() {
		try {
			sessionStorage.setItem(this.storage, this.text);
		} catch { /* more than the browser keeps: they can be saved as a file */ }
		const rows = this.cases.map((item) => {
			const does = `${item.method} ${visible(item.path, 80)}`;
			const button = (label, run) => h("button.small", { label: `${label}: ${userOf(item)}, ${does}`, onclick: () => { run(); this.draw(); } }, label);
			return [userOf(item), does, button(item.allowed ? "allowed" : "denied", () => Object.assign(item, { allowed: !item.allowed, outcome: undefined })),
				h("span", { class: item.outcome === "holds" ? "good" : "problem" }, visible(item.outcome ?? "", 200)),
				[button("Show", () => this.show(item)), button("Remove", () => this.cases.splice(this.cases.indexOf(item), 1))]];
		});
		this.list.replaceChildren(table(["user", "does", "must be", "and it", ""], rows, "Keep a question as a case: it is run before you publish."));
	}
}
