// An editor of rules that shows the server's errors at their lines, and publishes.

import "../vendor/codemirror/codemirror.js";
import "../vendor/codemirror/simple.js";
import "../vendor/codemirror/show-hint.js";
import { session } from "./session.js";
import { h, button, dialog, toast, visible } from "./dom.js";
import { completions } from "./rules-completion.js";
import * as playground from "./rules-playground.js";
import { showVersions } from "./rules-versions.js";

const CHECK_MS = 500; // after the last change
const PATH = "/.settings/rules.json";

CodeMirror.defineSimpleMode("rules", {
	start: [
		{ regex: /"(?:\.read|\.write|\.validate|\.indexOn|rules)"/, token: "keyword" }, { regex: /"\$[^"\\]*"/, token: "variable-2" },
		{ regex: /"(?:[^"\\]|\\.)*"/, token: "string" }, { regex: /\/\/.*/, token: "comment" }, { regex: /\/\*/, token: "comment", next: "comment" },
		{ regex: /\b(?:true|false|null)\b/, token: "atom" },
	],
	comment: [{ regex: /.*?\*\//, token: "comment", next: "start" }, { regex: /.*/, token: "comment" }],
});

/** The server's `line:column: message` lines. */
const readErrors = (text) => text.split("\n").filter(Boolean).map((text) => {
	const [, line = 0, column = 0, message = text] = /^(?:.*?:)?(\d+):(\d+): (.*)$/.exec(text) ?? [];
	return { line: Number(line), column: Number(column), message };
});

function hint(editor) {
	const { line, ch } = editor.getCursor();
	const { typed, words } = completions(editor.getLine(line).slice(0, ch), editor.getValue());
	return { list: words, from: { line, ch: ch - typed.length }, to: { line, ch } };
}

const frame = h("div.editor-frame");
const styles = ["show-hint", "codemirror"].map((name) => h("link", { rel: "stylesheet", href: `/vendor/codemirror/${name}.css` }));
const editor = CodeMirror(frame, {
	mode: "rules", theme: "pando", lineNumbers: true, indentUnit: 2, screenReaderLabel: "Rules", hintOptions: { hint, completeSingle: false },
	extraKeys: { "Ctrl-Space": "autocomplete", "Ctrl-S": () => isDifferent() && publish(), Tab: false, "Shift-Tab": false },
});
const errorList = h("ol.errors", { role: "alert" });
const state = h("span.hint", { role: "status" });
const publishButton = button("Publish", publish, ".primary");
let namespace, published, checkTimer; // namespace: of the rules in the editor
let [badLines, marks] = [[], []];
const storage = () => `pando.rules.${namespace}`; // of the draft
const isDifferent = () => editor.getValue() !== published;

const readPublished = async () => (await session.response(PATH, {}, { asSelf: true })).text();

async function load() {
	const wanted = (namespace = session.namespace), draft = sessionStorage.getItem(storage());
	editor.setValue((published = ""));
	try {
		const text = await readPublished();
		if (wanted !== namespace) return;
		editor.setValue((published = text));
		editor.clearHistory();
		if (draft) editor.setValue(draft);
	} catch (error) {
		namespace = undefined; // read again when the page is shown
		state.textContent = `The rules can't be read: ${error.message}`;
	}
}

function changed() {
	mark([]);
	playground.changed();
	showErrors("");
	publishButton.disabled = !isDifferent();
	state.textContent = isDifferent() ? "not published" : "as published";
	clearTimeout(checkTimer);
	if (isDifferent()) checkTimer = setTimeout(check, CHECK_MS);
	if (published) sessionStorage.setItem(storage(), isDifferent() ? editor.getValue() : "");
}

function mark(rules) {
	for (const one of marks) one.clear();
	marks = rules.filter(({ line }) => line <= editor.lineCount()).map(({ line, kind, location, outcome, error, decides, values = [] }) => editor.addLineWidget(line - 1,
		h(`div.mark.${outcome === "true" ? "good" : "problem"}${decides ? ".decides" : ""}`,
			visible(`${kind} at ${location} is ${error ? `an error: ${error.reason}` : outcome}${decides ? " and decides" : ""}${values.map(({ expression, value }) => ` · ${expression} = ${value}`).join("")}`, 1000))));
	const place = rules.find(({ decides }) => decides);
	if (place) editor.scrollIntoView({ line: place.line - 1, ch: 0 }, 80);
}

async function check() {
	const source = editor.getValue();
	const error = await send({ dryRun: "true" });
	if (source !== editor.getValue()) return false;
	showErrors(error);
	state.textContent = error ? "not published: has errors" : "not published: no errors";
	return !error;
}

/** Sends the draft; what is wrong with it, "" where nothing is. */
const send = (parameters) =>
	session.json(PATH, parameters, { asSelf: true, method: "PUT", body: editor.getValue() }).then(() => "", (error) => error.message);

function showErrors(text) {
	const errors = readErrors(text);
	errorList.replaceChildren(...errors.map(({ line, column, message }) => h("li", button([line > 0 && `Line ${line}, column ${column}: `, visible(message, 300)], () => goTo(line, column)))));
	for (const line of badLines) editor.removeLineClass(line, "gutter", "bad");
	badLines = errors.filter(({ line }) => line).map(({ line }) => editor.addLineClass(line - 1, "gutter", "bad"));
}

function goTo(line, column) {
	if (!line) return;
	editor.focus();
	editor.setSelection({ line: line - 1, ch: column }, { line: line - 1, ch: column - 1 });
}

async function publish() {
	clearTimeout(checkTimer);
	if (!(await check())) return;
	const failed = await playground.runAll();
	const isOld = (await readPublished().catch(() => published)) !== published;
	const body = [isOld && h("p.warning", "Others were published meanwhile: see Versions."), failed > 0 && h("p.warning", `${failed} of the cases do not hold with these rules.`), h("p", `They are in force for all clients of ${namespace} at once; listens that they no longer allow end.`)];
	if (!(await dialog({ title: "Publish the rules?", confirm: "Publish", danger: isOld || failed > 0, body }))) return;
	const error = await send({});
	if (error) return showErrors(error);
	published = editor.getValue();
	changed();
	toast("Published");
}

editor.on("change", changed);
editor.on("inputRead", (_, { text }) => /[\w.$]$/.test(text.at(-1)) && editor.showHint());
playground.connect(() => editor.getValue(), mark);
styles[1].addEventListener("load", () => editor.refresh());
const title = h("h2");
export const element = h("div.page", styles,
	h("div.together", title, state, h("span.grow"), button("Versions", () => showVersions(editor)), publishButton),
	frame, errorList, playground.element);

/** Shows the rules of the database; a draft stays while other pages are shown. */
export function show() {
	title.textContent = `Rules of ${session.namespace}`;
	editor.refresh();
	if (namespace === session.namespace) return;
	playground.load();
	load();
}

export const close = () => clearTimeout(checkTimer);
