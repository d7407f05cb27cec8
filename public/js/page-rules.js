// The security rules: an editor that colours them, shows what the server finds wrong at its line, and publishes.

import { session } from "./session.js";
import { h, table, dialog, toast, visible } from "./dom.js";
import { showDenial } from "./edit.js";

const CHECK_MS = 500; // after the last change
const TOKENS = /("(?:\.read|\.write|\.validate|\.indexOn|rules)")|("\$[^"\\]*")|("(?:[^"\\]|\\.)*")|(\/\/[^\n]*|\/\*[\s\S]*?\*\/)|\b(true|false|null)\b/g;

/** The text in pieces with a class for each kind of token. */
export function highlight(source) {
	const output = [];
	let end = 0;
	for (const match of source.matchAll(TOKENS)) {
		output.push(source.slice(end, match.index));
		end = match.index + match[0].length;
		const [text, rule, variable, string, comment] = match;
		if (rule) output.push(h("span.tok-rule", {}, text));
		else if (variable) output.push(h("span.tok-variable", {}, text));
		else if (comment) output.push(h("span.tok-comment", {}, text));
		else if (string) output.push(h("span.tok-string", {}, text));
		else output.push(h("span.tok-word", {}, text));
	}
	output.push(source.slice(end));
	return output;
}

/** The server's `line:column: message` lines. */
export const readErrors = (text) => text.split("\n").filter(Boolean).map((line) => {
	const found = /^(?:.*?:)?(\d+):(\d+): (.*)$/.exec(line);
	return found ? { line: Number(found[1]), column: Number(found[2]), message: found[3] } : { line: 0, column: 0, message: line };
});

export class RulesPage {
	constructor() {
		this.text = h("textarea", { autocapitalize: "off", wrap: "off", label: "Rules", "aria-describedby": "rule-errors" });
		this.colours = h("pre", { "aria-hidden": "true" });
		this.numbers = h("div.numbers", { "aria-hidden": "true" });
		this.errors = h("ol.errors", { id: "rule-errors", role: "alert" });
		this.state = h("span.hint", { role: "status" });
		this.publishButton = h("button", { class: "primary", onclick: () => this.publish() }, "Publish");
		this.text.addEventListener("input", () => this.changed());
		this.text.addEventListener("scroll", () => this.scrolled());
		this.text.addEventListener("keydown", (event) => this.pressed(event));
		this.element = h("div.page.rules-page", {},
			h("div.together", {}, h("h2", {}, `Rules of ${session.namespace}`), this.state, h("span.space", {}),
				h("button", { onclick: () => this.load() }, "Reload"), this.publishButton),
			h("div.editor-frame", {}, this.numbers, h("div.layers", {}, this.colours, this.text)),
			this.errors);
		this.load();
	}

	close() {
		clearTimeout(this.checkTimer);
	}

	async load() {
		try {
			const response = await session.request("/.settings/rules.json", {}, { asSelf: true });
			if (!response.ok) throw new Error((await response.json()).error);
			this.published = await response.text();
			this.text.value = this.published;
			this.changed({ isLoaded: true });
		} catch (error) {
			this.state.textContent = `The rules can't be read: ${error.message}`;
		}
	}

	changed({ isLoaded = false } = {}) {
		this.colours.replaceChildren(...highlight(this.text.value), "\n");
		this.drawNumbers([]);
		this.isDifferent = this.text.value !== this.published;
		this.publishButton.disabled = !this.isDifferent;
		this.state.textContent = isLoaded || !this.isDifferent ? "as published" : "not published";
		clearTimeout(this.checkTimer);
		this.errors.replaceChildren();
		if (this.isDifferent) this.checkTimer = setTimeout(() => this.check(), CHECK_MS);
	}

	drawNumbers(bad) {
		const lines = this.text.value.split("\n").length;
		const marked = new Set(bad);
		this.numbers.replaceChildren(...Array.from({ length: lines }, (_, place) => marked.has(place + 1) ? h("span.bad", {}, `${place + 1}`) : `${place + 1}\n`), "\n\n");
		this.scrolled();
	}

	scrolled() {
		this.colours.scrollTop = this.numbers.scrollTop = this.text.scrollTop;
		this.colours.scrollLeft = this.text.scrollLeft;
	}

	pressed(event) {
		if ((event.ctrlKey || event.metaKey) && event.key === "s") {
			event.preventDefault();
			if (this.isDifferent) this.publish();
		}
	}

	async check() {
		const source = this.text.value;
		const response = await this.send({ dryRun: "true" });
		if (source !== this.text.value) return false;
		this.showErrors(response.error);
		this.state.textContent = response.error ? "not published: has errors" : "not published: no errors";
		return !response.error;
	}

	async send(parameters) {
		try {
			const response = await session.request("/.settings/rules.json", parameters, { asSelf: true, method: "PUT", body: this.text.value });
			return response.ok ? {} : { error: (await response.json()).error };
		} catch {
			return { error: "The server does not answer." };
		}
	}

	showErrors(text) {
		const errors = text ? readErrors(text) : [];
		this.errors.replaceChildren(...errors.map(({ line, column, message }) => h("li", {}, h("button", { onclick: () => this.goTo(line, column) }, line ? `Line ${line}, column ${column}: ${visible(message, 300)}` : visible(message, 300)))));
		this.drawNumbers(errors.map(({ line }) => line));
	}

	goTo(line, column) {
		if (!line) return;
		const offset = this.text.value.split("\n").slice(0, line - 1).reduce((sum, text) => sum + text.length + 1, 0) + column - 1;
		this.text.focus();
		this.text.setSelectionRange(offset, offset + 1);
		this.text.scrollTop = Math.max(0, (line - 5) * 20);
	}

	async publish() {
		clearTimeout(this.checkTimer);
		if (!(await this.check())) return;
		if (!(await dialog({ title: "Publish the rules?", confirm: "Publish", body: h("p", {}, `They are in force for all clients of ${session.namespace} at once; listens that they no longer allow end.`) }))) return;
		const { error } = await this.send({});
		if (error) return this.showErrors(error);
		this.published = this.text.value;
		this.changed({ isLoaded: true });
		toast("Published");
	}
}

/** Denied operations, each with its reason behind a button. */
export const denialTable = (denials) => table(["time", "user", "operation", "path", ""], denials.slice(0, 50).map((entry) => [
	new Date(entry.time).toLocaleTimeString("en-GB"), entry.uid === null ? "not signed in" : visible(entry.uid, 60), visible(String(entry.denial.operation ?? ""), 40),
	visible(String(entry.denial.path ?? ""), 160), h("button.small", { onclick: () => showDenial(entry) }, "Why?"),
]), "Nothing was denied since the server started.");
