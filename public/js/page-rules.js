// The security rules: an editor that shows what the server finds wrong at its line, and publishes.

import "../vendor/codemirror/codemirror.js";
import "../vendor/codemirror/simple.js";
import "../vendor/codemirror/show-hint.js";
import { session } from "./session.js";
import { h, dialog, toast, visible } from "./dom.js";
import { completions } from "./rules-completion.js";
import { Playground } from "./rules-playground.js";
import { showVersions } from "./rules-versions.js";

const CHECK_MS = 500; // after the last change

CodeMirror.defineSimpleMode("rules", {
	start: [
		{ regex: /"(?:\.read|\.write|\.validate|\.indexOn|rules)"/, token: "keyword" }, { regex: /"\$[^"\\]*"/, token: "variable-2" },
		{ regex: /"(?:[^"\\]|\\.)*"/, token: "string" }, { regex: /\/\/.*/, token: "comment" }, { regex: /\/\*/, token: "comment", next: "comment" },
		{ regex: /\b(?:true|false|null)\b/, token: "atom" },
	],
	comment: [{ regex: /.*?\*\//, token: "comment", next: "start" }, { regex: /.*/, token: "comment" }],
});

/** The server's `line:column: message` lines. */
const readErrors = (text) => text.split("\n").filter(Boolean).map((line) => {
	const found = /^(?:.*?:)?(\d+):(\d+): (.*)$/.exec(line);
	return found ? { line: Number(found[1]), column: Number(found[2]), message: found[3] } : { line: 0, column: 0, message: line };
});

function hint(editor) {
	const { line, ch } = editor.getCursor();
	const { typed, words } = completions(editor.getLine(line).slice(0, ch), editor.getValue());
	return { list: words, from: { line, ch: ch - typed.length }, to: { line, ch } };
}

export class Page {
	constructor() {
		const frame = h("div.editor-frame");
		this.styles = ["show-hint", "codemirror"].map((name) => h("link", { rel: "stylesheet", href: `/vendor/codemirror/${name}.css` }));
		this.editor = CodeMirror(frame, {
			mode: "rules", theme: "pando", lineNumbers: true, indentUnit: 2, screenReaderLabel: "Rules",
			hintOptions: { hint, completeSingle: false }, extraKeys: { "Ctrl-Space": "autocomplete", "Ctrl-S": () => this.isDifferent && this.publish(), Tab: false, "Shift-Tab": false },
		});
		this.editor.on("change", () => this.changed());
		this.editor.on("inputRead", (_, { text }) => /[\w.$]$/.test(text.at(-1)) && this.editor.showHint());
		this.marks = [];
		this.playground = new Playground({ source: () => this.editor.getValue(), mark: (rules) => this.mark(rules), goTo: (line, column) => this.goTo(line, column) });
		this.errors = h("ol.errors", { role: "alert" });
		this.state = h("span.hint", { role: "status" });
		this.publishButton = h("button.primary", { onclick: () => this.publish() }, "Publish");
		this.element = h("div.page", this.styles,
			h("div.together", h("h2", `Rules of ${session.namespace}`), this.state, h("span.space"),
				h("button", { onclick: () => showVersions(this.editor) }, "Versions"), h("button", { onclick: () => this.load() }, "Reload"), this.publishButton),
			frame, this.errors, this.playground.element);
		this.load();
	}

	opened() {
		this.styles[1].addEventListener("load", () => this.editor.refresh());
	}

	close() {
		clearTimeout(this.checkTimer);
	}

	async load() {
		try {
			const response = await session.request("/.settings/rules.json", {}, { asSelf: true });
			if (!response.ok) throw new Error((await response.json()).error);
			this.published = await response.text();
			this.editor.setValue(this.published);
			this.editor.clearHistory();
		} catch (error) {
			this.state.textContent = `The rules can't be read: ${error.message}`;
		}
	}

	changed() {
		this.mark([]);
		this.playground.changed();
		this.showErrors("");
		this.isDifferent = this.editor.getValue() !== this.published;
		this.publishButton.disabled = !this.isDifferent;
		this.state.textContent = this.isDifferent ? "not published" : "as published";
		clearTimeout(this.checkTimer);
		if (this.isDifferent) this.checkTimer = setTimeout(() => this.check(), CHECK_MS);
	}

	/** Shows below the lines of rules what they gave, and the values they saw. */
	mark(rules) {
		for (const mark of this.marks) mark.clear();
		this.marks = rules.filter(({ line }) => line <= this.editor.lineCount()).map(({ line, kind, location, outcome, decides, values = [] }) => this.editor.addLineWidget(line - 1,
			h("div", { class: `mark ${outcome === "true" ? "good" : "problem"}${decides ? " decides" : ""}` },
				visible(`${kind} at ${location} is ${outcome}${decides ? " and decides" : ""}${values.map(({ expression, value }) => ` · ${expression} = ${value}`).join("")}`, 1000))));
	}

	async check() {
		const source = this.editor.getValue();
		const error = await this.send({ dryRun: "true" });
		if (source !== this.editor.getValue()) return false;
		this.showErrors(error);
		this.state.textContent = error ? "not published: has errors" : "not published: no errors";
		return !error;
	}

	/** Sends the draft; what is wrong with it, "" where nothing is. */
	send(parameters) {
		return session.json("/.settings/rules.json", parameters, { asSelf: true, method: "PUT", body: this.editor.getValue() }).then(() => "", (error) => error.message);
	}

	showErrors(text) {
		const errors = readErrors(text);
		this.errors.replaceChildren(...errors.map(({ line, column, message }) => h("li", h("button", { onclick: () => this.goTo(line, column) }, line > 0 && `Line ${line}, column ${column}: `, visible(message, 300)))));
		for (const line of this.bad ?? []) this.editor.removeLineClass(line, "gutter", "bad");
		this.bad = errors.filter(({ line }) => line).map(({ line }) => this.editor.addLineClass(line - 1, "gutter", "bad"));
	}

	goTo(line, column) {
		if (!line) return;
		this.editor.focus();
		this.editor.setSelection({ line: line - 1, ch: column }, { line: line - 1, ch: column - 1 });
	}

	async publish() {
		clearTimeout(this.checkTimer);
		if (!(await this.check())) return;
		const failed = await this.playground.runAll();
		const warning = failed > 0 && h("p.warning", `${failed} of ${this.playground.cases.length} cases do not hold with these rules.`);
		if (!(await dialog({ title: "Publish the rules?", confirm: "Publish", danger: failed > 0, body: h("div", warning, h("p", `They are in force for all clients of ${session.namespace} at once; listens that they no longer allow end.`)) }))) return;
		const error = await this.send({});
		if (error) return this.showErrors(error);
		this.published = this.editor.getValue();
		this.changed();
		toast("Published");
	}
}
