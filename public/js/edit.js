// Writing: a change is one atomic request, compared with what was shown before it, and can be undone.

import { session, restPath } from "./session.js";
import { h, button, choice, dialog, toast, save, visible, formatCount, formatMoment } from "./dom.js";
import { parse, stringify, wrap, unwrap, kindOf, isObject, own } from "./json.js";
import { hash, join, split, problemOfKey, pushID } from "./keys.js";
import { openEditor, closeEditor } from "./tree-view.js";

const UNDO_LIMIT = 100; // steps
const UNDO_NODES = 50000; // of a value that is kept for undo
const UNDO_UNITS = 4 << 20; // of its text
const HISTORY_UNITS = 32 << 20; // of all steps
const EDIT_NODES = 20000; // of one that is edited as text
const REST_UNITS = 1 << 20; // a longer value goes by REST
const DEPTH_LIMIT = 32;
const DIFF_LIMIT = 200; // changes that are listed
const TOO_DEEP = `A path has at most ${DEPTH_LIMIT} keys.`;

const history = []; // {label, changes, namespace, units}
let written = () => {};
export const onWritten = (listener) => (written = listener);
export const lastStep = () => history.at(-1);

function remember(label, changes) {
	history.push({ label, changes, namespace: session.namespace, units: stringify(changes).length });
	while (history.length > UNDO_LIMIT || history.reduce((sum, { units }) => sum + units, 0) > HISTORY_UNITS) history.shift();
}

const hasServerValue = (value) => isObject(value) && (Object.hasOwn(value, ".sv") || Object.values(value).some(hasServerValue));

/** A value that was written; undefined where the server filled it in. */
const known = (value) => (hasServerValue(value) ? undefined : value);
const nameOf = ({ path }) => visible(path, 60);
const counted = (count, noun) => `${formatCount(count)} ${noun}${count === 1 ? "" : "s"}`;
const nodes = (count) => counted(count, "node");

const countNodes = (value) => value === null ? 0 : isObject(value) ? Object.values(value).reduce((sum, child) => sum + countNodes(child), 1) : 1;

/** What is at a path: {count, words, value}, without a value too large for undo; undefined where it can't be read. */
async function look(path) {
	try {
		const { nodes: count, more = false } = await session.children(path, { measure: "true", limit: 1 });
		const words = count === undefined ? "" : `${more ? "more than " : ""}${nodes(count)}`;
		if (more || count > UNDO_NODES) return { count, words };
		const value = await session.read(path, UNDO_UNITS);
		if (count !== undefined) return { count, words, value };
		// The count is for administrators.
		const found = value === undefined ? Infinity : countNodes(value);
		return { count: found, words: value === undefined ? "many nodes" : nodes(found), ...(found <= UNDO_NODES && { value }) };
	} catch (error) {
		await explain(error, "Read");
	}
}

/** As `look`; undefined, after a message, for a value that is too large. */
async function lookAtAll(branch, deed, limit = UNDO_NODES) {
	const found = await look(branch.path);
	if (!found || (found.value !== undefined && found.count <= limit)) return found;
	toast(`${nameOf(branch)} has ${found.words}: too many to ${deed}.`, "error");
}

function put(path, value, ifHash) {
	const body = stringify(value);
	if (body.length < REST_UNITS || ifHash !== undefined) return session.database.set(path, value, ifHash);
	return session.json(restPath(path), { print: "silent" }, { method: "PUT", body });
}

/** A button that shows why the actor was denied something just now, for administrators. */
export const whyButton = (error) => error.code === "permission_denied" && session.isAdmin && button("Why?", async () => {
	try {
		const { denials } = await session.inspect("denials");
		const uid = session.actor.auth?.uid ?? session.database.auth?.uid ?? null;
		showDenial(denials.find((one) => one.uid === uid) ?? denials[0]);
	} catch (error) {
		toast(error.message, "error");
	}
}, ".link");

export const explain = (error, what) => toast(`${what}: ${error.message}`, "error", whyButton(error));

/** The rules that were evaluated for a denied operation, with what they saw. */
export function showDenial({ denial, uid, time }) {
	const rules = (denial.rules ?? []).map(({ rule, kind, line, column, outcome, location, values = [] }) => h("div.denial",
		h("b", `${visible(rule, 200)} ${kind}`), ` at line ${line}:${column}, asked for ${visible(location, 200)}: `, h("b.problem", visible(outcome, 200)),
		h("dl", values.map(({ expression, value }) => [h("dt", visible(expression, 300)), h("dd", visible(value, 300))]))));
	return dialog({
		title: `Why ${denial.operation} of ${visible(denial.path, 80)} was denied`, confirm: "Close", wide: true,
		body: [h("p", `${formatMoment(time)}, ${uid === null ? "not signed in" : `uid ${visible(uid)}`}: ${visible(denial.cause)}.`),
			rules.length ? rules : h("p", "No rule on the way grants it.")],
	});
}

/** Writes one value over another that was seen; whether that was done. */
export async function replace(branch, before, after, label) {
	const { path } = branch;
	try {
		await put(path, after, hash(before));
	} catch (error) {
		return error.code === "datastale" ? conflict(branch, after, label).catch((it) => explain(it, label)) : explain(error, label);
	}
	remember(label, [{ path, before, after: known(after) }]);
	written(path);
	return true;
}

async function conflict(branch, mine, label) {
	const theirs = await session.read(branch.path);
	const side = (title, name, value) => h("div", h("h3", title), h(`pre.snippet.${name}`, stringify(value, 2).slice(0, 5000)));
	const overwrites = await dialog({
		title: "Changed by another client", confirm: "Overwrite with yours", danger: true,
		body: [h("p", `${nameOf(branch)} is no longer what you saw. Nothing was written.`), h("div.versions", side("There now", "theirs", theirs), side("Yours", "mine", mine))],
	});
	written(branch.path);
	return overwrites && replace(branch, theirs, mine, label);
}

/** Whether to write: asks where a value is no longer what a change was made from. */
async function confirmUnchanged(label, changes) {
	const changed = [];
	for (const { path, before } of changes) {
		if (before !== undefined && hash(await session.read(path)) !== hash(before)) changed.push(path);
	}
	const body = h("p", `${visible(changed.join(", "))} is no longer what you saw. Nothing was written.`);
	return !changed.length || dialog({ title: "Changed since", confirm: `${label} nevertheless`, danger: true, body });
}

/** Writes changes, [{path, before, after}], as one step; whether that was done. */
async function writeAll(label, changes, isUndo = false) {
	try {
		if (!(await confirmUnchanged(label, changes))) return false;
		const [{ path, after }] = changes;
		if (changes.length === 1) await put(path, after);
		else await session.database.update("/", Object.fromEntries(changes.map(({ path, after }) => [path.slice(1), after])));
	} catch (error) {
		await explain(error, label);
		return false;
	}
	if (!isUndo && changes.every(({ before }) => before !== undefined)) remember(label, changes);
	for (const { path } of changes) written(path);
	return true;
}

export async function undo() {
	const step = history.pop();
	if (!step) return;
	const { label, namespace, changes } = step;
	const back = changes.map(({ path, before, after }) => ({ path, before: after, after: before }));
	if (namespace !== session.namespace) toast(`The last step was in the database ${namespace}.`);
	else if (await writeAll("Undo", back, true)) return toast(`Undone: ${label}`);
	history.push(step);
}

/** Reads JSON of one kind; throws what is wrong. */
const reader = (kind) => (text) => {
	const value = parse(text);
	if (kindOf(value) !== kind || Math.abs(Number(value)) === Infinity) throw new Error(`This is no ${kind}.`);
	return value;
};

const READERS = {
	string: String, number: reader("number"), boolean: reader("boolean"), json: parse,
	timestamp: () => ({ ".sv": "timestamp" }), increment: (text) => ({ ".sv": { increment: READERS.number(text) } }),
};
const TYPES = ["string", "number", "boolean", ["json", "JSON"], ["timestamp", "server time"], ["increment", "increment by"]];

/** A type and a field for the value; `read()` gives it or throws what is wrong. */
export function valueField(value, types = TYPES, tag = "input") {
	const kind = kindOf(value);
	const isJSON = /object|null/.test(kind);
	const type = choice("Type", types, { class: "type", value: isJSON ? "json" : kind, onchange: () => {
		text.disabled = type.value === "timestamp";
		if (type.value === "boolean" && !/^(true|false)$/.test(text.value)) text.value = "true";
	} });
	const text = h(tag, { class: "value-input", label: "Value", rows: 6, value: isJSON ? stringify(value) : String(unwrap(value).value) });
	return { elements: [type, text], type, text, read: () => READERS[type.value](text.value) };
}

/** The paths at which two values differ: [{path, before, after}]. */
export function differences(before, after, keys) {
	const [a, b] = [before, after].map((value) => unwrap(value ?? null));
	if (kindOf(before) !== "object" || kindOf(after) !== "object" || a.priority !== b.priority) {
		return hash(before) !== hash(after) || hasServerValue(after) ? [{ path: join(keys), before: before ?? null, after: after ?? null }] : [];
	}
	const names = Object.keys({ ...a.value, ...b.value }).filter((name) => name !== ".priority");
	return names.flatMap((name) => differences(own(a.value, name), own(b.value, name), [...keys, name]));
}

export function diffList(changes) {
	const line = (sign, kind, path, value) => (value ?? null) !== null && h(`div.${kind}`, h("span.sign", sign), h("span", visible(path, 120)), h("span.what", visible(stringify(value), 120)));
	const lines = changes.slice(0, DIFF_LIMIT).flatMap(({ path, before, after }) => [line("−", "removed", path, before), line("+", "added", path, after)]);
	return h("div.diff", { tabIndex: 0, label: "Changes" }, lines, changes.length > DIFF_LIMIT && h("p", `and ${formatCount(changes.length - DIFF_LIMIT)} more`));
}

export const confirmChanges = (title, changes, warning) => dialog({
	title, confirm: "Write", wide: true,
	body: [warning, h("p.hint", `${counted(changes.length, "change")}, written as one step.`), diffList(changes)],
});

/** Edits a leaf in its row; an object, or text of several lines, as JSON. */
export async function edit(branch) {
	if (!branch.isLeaf && branch.kind !== "null") return editJSON(branch);
	const before = branch.length ? await session.read(branch.path) : wrap(branch.value, branch.priority);
	if (branch.length && kindOf(before) !== "string") return written(branch.path);
	if (/[\r\n]/.test(unwrap(before).value)) return editJSON(branch);
	const field = valueField(before);
	const problem = h("span.problem", { role: "alert" });
	const onsubmit = async () => {
		let value;
		try {
			value = field.read();
		} catch (error) {
			problem.textContent = error.message;
			return field.text.focus();
		}
		const after = hasServerValue(value) ? value : wrap(value, unwrap(before).priority);
		const isSame = hash(after) === hash(before) && !hasServerValue(after);
		submit.disabled = true;
		// What was typed stays until it is written.
		if (isSame || (await replace(branch, before, after, `Set ${nameOf(branch)}`))) closeEditor(form);
		submit.disabled = false;
	};
	const onkeydown = (event) => {
		if (event.key === "Escape") closeEditor();
		event.stopPropagation();
	};
	const submit = h("button.primary.small", { type: "submit" }, "Save");
	const form = h("form.row.editor", { onsubmit, onkeydown }, h("span.twisty"), h("span.key", visible(branch.key, 60)), field.elements,
		submit, button("Cancel", () => closeEditor(), ".small"), problem);
	openEditor(branch, form);
	field.text.focus();
	field.text.select();
}

export async function editJSON(branch) {
	const found = await lookAtAll(branch, "edit as text", EDIT_NODES);
	if (!found) return;
	const before = found.value;
	const text = h("textarea.code", { rows: 18, autofocus: true, label: "JSON", value: stringify(before, 2) });
	let after;
	const check = () => void (after = parse(text.value));
	// What was typed comes back until it is written.
	while (await dialog({ title: visible(branch.path, 80), confirm: "Review", wide: true, body: text, check })) {
		const changes = differences(before, after, branch.keys);
		if (changes.length === 0) return toast("Nothing is different.");
		const label = `Change ${nameOf(branch)}`;
		if (await confirmChanges(label, changes) && await replace(branch, before, after, label)) return;
	}
}

export async function add(branch) {
	if (branch.isLeaf) return toast("A value has no children: edit it as JSON.");
	const key = h("input.grow", { label: "Key", autofocus: true });
	const field = valueField("", TYPES, "textarea");
	const check = async () => {
		const problem = problemOfKey(key.value);
		if (problem) return problem;
		if (branch.keys.length >= DEPTH_LIMIT) return TOO_DEEP;
		const value = field.read();
		if (value === null) return "null adds nothing.";
		const path = join([...branch.keys, key.value]);
		try {
			await put(path, value, hash(null));
		} catch (error) {
			return error.code === "datastale" ? "There is a child with this key already." : error.message;
		}
		remember(`Add ${visible(path, 60)}`, [{ path, before: null, after: known(value) }]);
		written(path);
	};
	return dialog({
		title: `Add to ${nameOf(branch)}`, confirm: "Add", check,
		body: [h("label", "Key", h("span.together", key, button("Push id", () => (key.value = pushID(session.database.now))))),
			h("label", "Value", h("span.together", field.elements))],
	});
}

export async function remove(branch) {
	const { path } = branch;
	const { value, words } = (await look(path)) ?? {};
	if (!words) return;
	const body = [h("p", `${words} will be removed${path === "/" ? ": the whole database" : ""}.`),
		value === undefined ? h("p.warning", "Too large to undo: export it first, or make a backup.") : h("p.hint", "You can undo it while this page is open.")];
	const label = `Delete ${nameOf(branch)}`;
	if (await dialog({ title: `${label}?`, confirm: `Delete ${words}`, danger: true, body })) await writeAll(label, [{ path, before: value, after: null }]);
}

export async function move(branch, { isCopy = false } = {}) {
	const { path: from } = branch;
	const found = await lookAtAll(branch, "move here");
	if (!found) return;
	const field = h("input.path-input", { label: "New path", autofocus: true, value: isCopy ? `${from}-copy` : from });
	let path;
	const check = () => {
		const keys = split(field.value);
		path = join(keys);
		if (keys.length === 0) return "It can't be the root.";
		if (keys.length > DEPTH_LIMIT) return TOO_DEEP;
		if (path === from) return "This is where it is.";
		if (path.startsWith(`${from}/`) || from.startsWith(`${path}/`)) return "A node can't go into itself, or over what holds it.";
		return keys.map(problemOfKey).find(Boolean);
	};
	const words = `${isCopy ? "Duplicate" : "Rename or move"} ${nameOf(branch)}`;
	if (!(await dialog({ title: words, confirm: "Review", wide: true, body: h("label", "New path", field), check }))) return;
	const changes = [{ path, before: await session.read(path).catch(() => {}), after: found.value }, ...(isCopy ? [] : [{ path: from, before: found.value, after: null }])];
	if (await confirmChanges(words, changes)) await writeAll(words, changes);
}

export async function importJSON(branch) {
	const file = h("input", { type: "file", accept: ".json,application/json", label: "File" });
	const text = h("textarea.code", { rows: 10, label: "JSON", placeholder: "or JSON" });
	const label = `Import at ${nameOf(branch)}`;
	let after;
	const check = async () => void (after = parse(file.files[0] ? await file.files[0].text() : text.value));
	while (await dialog({ title: label, confirm: "Review", wide: true, body: [file, text], check })) {
		const { value: before, words = "what is there" } = (await look(branch.path)) ?? {};
		const changes = [{ path: branch.path, before, after }];
		const warning = before === undefined && h("p.warning", `It replaces ${words}, too large to undo.`);
		if (await confirmChanges(label, changes, warning) && await writeAll(label, changes)) return;
	}
}

export async function exportJSON(branch) {
	try {
		const response = await session.response(restPath(branch.path), { format: "export", print: "pretty" });
		save(`${branch.key.replace(/[^\w.-]+/g, "_") || "export"}.json`, await response.blob());
	} catch (error) {
		explain(error, "Export");
	}
}
