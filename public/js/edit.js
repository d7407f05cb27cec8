// Writing: each change is one atomic request, is compared with what was shown before it, and can be undone.

import { session, restPath } from "./session.js";
import { h, choice, dialog, toast, save, visible, formatCount } from "./dom.js";
import { parse, stringify, positionOf, wrap, unwrap, countNodes, kindOf } from "./json.js";
import { hash, join, split, problemOfKey, pushID } from "./keys.js";
import { DatabaseError } from "./realtime.js";

const UNDO_LIMIT = 100; // steps
const UNDO_NODES = 50000; // of a value that is kept for undo
const EDIT_NODES = 20000; // of a value that is edited as text
const REST_UNITS = 1 << 20; // a longer value is sent by REST
const DEPTH_LIMIT = 32;

const history = [];
let changedHistory = () => {};
export const onHistory = (listener) => (changedHistory = listener);
export const lastStep = () => history.at(-1);

function remember(label, changes) {
	history.push({ label, changes, namespace: session.namespace });
	if (history.length > UNDO_LIMIT) history.shift();
	changedHistory();
}

const hasServerValue = (value) =>
	value !== null && typeof value === "object" && (Object.hasOwn(value, ".sv") || Object.values(value).some(hasServerValue));

const nameOf = ({ path }) => visible(path, 60);

/** What is at a path: {nodes, value}, without the value where it is too large for undo; undefined where it can't be read. */
async function look(path) {
	try {
		const { nodes = 0, more = false } = session.isAdmin ? await session.children(path, { measure: "true", limit: 1 }) : {};
		if (more || nodes > UNDO_NODES) return { nodes, words: `${more ? "more than " : ""}${formatCount(nodes)} nodes` };
		const value = await session.read(path);
		const count = countNodes(value);
		return { nodes: count, words: `${formatCount(count)} ${count === 1 ? "node" : "nodes"}`, value };
	} catch (error) {
		await explain(error, "Read");
	}
}

async function put(path, value, ifHash) {
	const text = stringify(value);
	if (text.length < REST_UNITS || ifHash !== undefined) return session.database.set(path, value, ifHash);
	return session.json(restPath(path), { print: "silent" }, { method: "PUT", body: text });
}

/** Shows why something was refused; administrators see the rule. */
export async function explain(error, what) {
	if (error.code === "permission_denied" && session.isAdmin) {
		const { denials } = await session.denials().catch(() => ({ denials: [] }));
		if (denials.length) return toast(`${what}: permission denied.`, "error", { label: "Why?", run: () => showDenial(denials[0]) });
	}
	toast(`${what}: ${error.message}`, "error");
}

/** Rules that were evaluated, each with what it saw; `goTo(line, column)` shows one where it stands. */
export const ruleList = (rules, goTo) => rules.map(({ rule, kind, line, column, outcome, error, location, values = [] }) => {
	const place = `line ${line}:${column}`;
	return h("div.denial", h("b", `${visible(rule, 200)} ${kind}`), " at ", goTo ? h("button.link", { onclick: () => goTo(line, column) }, place) : place,
		`, asked for ${visible(location, 200)}: `, h(outcome === "true" ? "b.good" : "b.problem", visible(error ? `error: ${error.reason}` : outcome, 200)),
		h("dl", values.map(({ expression, value }) => [h("dt", visible(expression, 300)), h("dd", visible(value, 300))])));
});

/** The rules that were evaluated for a denied operation, with what they saw. */
export function showDenial({ denial, uid, time }) {
	const rules = ruleList(denial.rules ?? []);
	return dialog({
		title: `Why ${denial.operation} of ${visible(denial.path, 80)} was denied`, confirm: "Close", wide: true,
		body: [h("p", `${new Date(time).toLocaleString("en-GB")}, ${uid === null ? "not signed in" : `uid ${visible(uid)}`}: ${visible(denial.cause)}.`),
			rules.length ? rules : h("p", "No rule on the way grants it: what no rule allows is denied.")],
	});
}

/** Writes one value over another that was seen. */
export async function replace(branch, before, after, label, done) {
	const { path } = branch;
	try {
		await put(path, after, hash(before));
	} catch (error) {
		return error.code === "datastale" ? conflict(branch, after, label, done) : explain(error, label);
	}
	remember(label, [{ path, before, after: hasServerValue(after) ? undefined : after }]);
	done(path);
}

async function conflict(branch, mine, label, done) {
	const theirs = await session.read(branch.path);
	const side = (title, name, value) => h("div", h("h3", title), h(`pre.snippet.${name}`, stringify(value, 2).slice(0, 5000)));
	const overwrite = await dialog({
		title: "Somebody changed it meanwhile", confirm: "Overwrite with yours", danger: true,
		body: h("div", h("p", `${branch.path} is no longer what you saw. Nothing was written.`),
			h("div.versions", side("There now", "theirs", theirs), side("Yours", "mine", mine))),
	});
	done(branch.path);
	if (overwrite) await replace(branch, theirs, mine, label, done);
}

async function writeAll(label, changes, done, isUndo = false) {
	try {
		if (changes.length === 1) await put(changes[0].path, changes[0].after);
		else await session.database.update("/", Object.fromEntries(changes.map(({ path, after }) => [path.slice(1), after])));
	} catch (error) {
		await explain(error, label);
		return false;
	}
	if (!isUndo && changes.every(({ before }) => before !== undefined)) remember(label, changes);
	for (const { path } of changes) done(path);
	return true;
}

/** Undoes the last step, unless others have changed it since: then it asks. */
export async function undo(done) {
	const step = history.at(-1);
	if (!step) return;
	if (step.namespace !== session.namespace) return toast(`The last step was in the database ${step.namespace}.`);
	const changed = [];
	for (const { path, after } of step.changes) {
		if (after !== undefined && hash(await session.read(path)) !== hash(after)) changed.push(path);
	}
	if (changed.length && !(await dialog({
		title: "Changed since", confirm: "Undo nevertheless", danger: true,
		body: h("p", `${visible(changed.join(", "))} was changed after “${step.label}”. Undo writes the value from before it.`),
	}))) return;
	history.pop();
	const back = step.changes.map(({ path, before, after }) => ({ path, before: after, after: before }));
	if (await writeAll("Undo", back, done, true)) toast(`Undone: ${step.label}`);
	else history.push(step);
	changedHistory();
}

const TYPES = ["string", "number", "boolean", ["json", "JSON"], ["timestamp", "server time"], ["increment", "increment by"]];

/** A choice of type and a field for the value; `read()` gives the value or throws what is wrong. */
export function valueField(value, types = TYPES, tag = "input") {
	const { value: plain } = unwrap(value ?? null);
	const kind = kindOf(value ?? null);
	const first = kind === "object" || kind === "null" ? "json" : kind;
	const type = choice("Type", types, { class: "type" });
	type.value = first;
	const text = h(tag, { class: "value-input", label: "Value", rows: 6, value: first === "json" ? stringify(value ?? null) : String(plain) });
	const adapt = () => {
		text.disabled = type.value === "timestamp";
		if (type.value === "increment" && !Number(text.value)) text.value = "1";
		if (type.value === "boolean" && !/^(true|false)$/.test(text.value)) text.value = "true";
	};
	type.addEventListener("change", adapt);
	const read = () => {
		if (type.value === "string") return text.value;
		if (type.value === "timestamp") return { ".sv": "timestamp" };
		const content = text.value.trim();
		if (type.value === "json") return readJSON(content);
		if (type.value === "boolean") {
			if (!/^(true|false)$/.test(content)) throw new Error("A boolean is true or false.");
			return content === "true";
		}
		if (!/^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/.test(content)) throw new Error("This is not a number in JSON's spelling.");
		const number = parse(content);
		if (typeof number === "number" && !Number.isFinite(number)) throw new Error("The number is too large.");
		return type.value === "number" ? number : { ".sv": { increment: number } };
	};
	return { elements: [type, text], type, text, read };
}

/** JSON that a user typed; throws words with the line and column. */
export function readJSON(text) {
	try {
		return parse(text);
	} catch (error) {
		const place = positionOf(error, text);
		throw new Error(`Line ${place.line}, column ${place.column}: ${error.message.replace(/ in JSON at position.*$/s, "").replace(/, \.*".*is not valid JSON$/s, "")}`);
	}
}

// MARK: Actions on a branch. `done(path)` is called for each path that was written.

/** Edits a leaf in its row, and an object as JSON. */
export async function edit(view, branch, done) {
	if (!branch.isLeaf && branch.kind !== "null") return editJSON(branch, done);
	let before = wrap(branch.value, branch.priority);
	if (branch.length) {
		before = await session.read(branch.path);
		if (kindOf(before) !== "string") return done(branch.path);
	}
	const field = valueField(before);
	const problem = h("span.problem", { role: "alert" });
	const finish = async () => {
		let value;
		try {
			value = field.read();
		} catch (error) {
			problem.textContent = error.message;
			return field.text.focus();
		}
		view.closeEditor();
		const after = hasServerValue(value) ? value : wrap(value, unwrap(before).priority);
		if (hash(after) === hash(before) && !hasServerValue(after)) return;
		await replace(branch, before, after, `Set ${nameOf(branch)}`, done);
	};
	const form = h("form.row.editor", { onsubmit: (event) => { event.preventDefault(); finish(); }, onkeydown: (event) => {
		if (event.key === "Escape") view.closeEditor();
		event.stopPropagation();
	} }, h("span.twisty"), h("span.key", visible(branch.key, 60)), field.elements,
	h("button.primary.small", { type: "submit" }, "Save"), h("button.small", { onclick: () => view.closeEditor() }, "Cancel"), problem);
	view.openEditor(branch, form);
	field.text.focus();
	field.text.select?.();
}

export async function editJSON(branch, done) {
	const found = await look(branch.path);
	if (!found) return;
	const before = found.value;
	if (before === undefined || found.nodes > EDIT_NODES) return toast(`${nameOf(branch)} has ${found.words}: too many to edit as text.`, "error");
	const text = h("textarea.code", { rows: 18, autofocus: true, label: "JSON", value: stringify(before, 2) });
	let after;
	const ok = await dialog({
		title: visible(branch.path, 80), confirm: "Review", wide: true, body: text,
		check: () => void (after = readJSON(text.value)),
	});
	if (!ok) return;
	const changes = differences(before, after, branch.keys);
	if (changes.length === 0) return toast("Nothing is different.");
	if (await confirmChanges(`Change ${nameOf(branch)}`, changes)) await replace(branch, before, after, `Edit ${nameOf(branch)}`, done);
}

/** The paths at which two values differ: [{path, before, after}]. */
export function differences(before, after, keys, output = []) {
	const [a, b] = [unwrap(before ?? null), unwrap(after ?? null)];
	const areObjects = kindOf(before ?? null) === "object" && kindOf(after ?? null) === "object" && a.priority === b.priority;
	if (!areObjects) {
		if (hash(before ?? null) !== hash(after ?? null) || hasServerValue(after)) output.push({ path: join(keys), before: before ?? null, after: after ?? null });
		return output;
	}
	for (const key of new Set([...Object.keys(a.value), ...Object.keys(b.value)])) {
		if (key === ".priority") continue;
		differences(Object.hasOwn(a.value, key) ? a.value[key] : null, Object.hasOwn(b.value, key) ? b.value[key] : null, [...keys, key], output);
	}
	return output;
}

const side = (sign, kind, path, value) => h("div", { class: kind }, h("span.sign", sign), h("span", visible(path, 120)), h("span.what",
	kindOf(value) === "object" ? `${formatCount(countNodes(value))} nodes` : visible(stringify(value), 120)));

/** Changes as lines of what was and what is. */
export function diffList(changes) {
	const rows = changes.slice(0, 200).flatMap(({ path, before, after }) => [
		before !== null && before !== undefined && side("−", "removed", path, before),
		after !== null && side("+", "added", path, after),
	]);
	return h("div.diff", { tabIndex: 0, label: "Changes" }, rows, changes.length > 200 && h("p", `and ${formatCount(changes.length - 200)} more`));
}

/** Shows changes before they are written. */
export const confirmChanges = (title, changes) => dialog({
	title, confirm: "Write", wide: true,
	body: [h("p.hint", `${formatCount(changes.length)} ${changes.length === 1 ? "change" : "changes"}, written as one step.`), diffList(changes)],
});

export async function add(branch, done) {
	if (branch.isLeaf) return toast("A value has no children: edit it as JSON instead.");
	const key = h("input.grow", { label: "Key", autofocus: true });
	const field = valueField("", TYPES, "textarea");
	let value;
	const ok = await dialog({
		title: `Add to ${nameOf(branch)}`, confirm: "Add",
		body: [h("label", "Key", h("span.together", key, h("button", { onclick: () => (key.value = pushID(session.database.now)) }, "Push id"))),
			h("label", "Value", h("span.together", field.elements))],
		check: async () => {
			const problem = problemOfKey(key.value);
			if (problem) return problem;
			if (branch.keys.length >= DEPTH_LIMIT) return `A path has at most ${DEPTH_LIMIT} keys.`;
			value = field.read();
			if (value === null) return "null is no value: nothing would be added.";
			const path = join([...branch.keys, key.value]);
			try {
				await put(path, value, hash(null));
			} catch (error) {
				if (error.code === "datastale") return "There is a child with this key already.";
				throw error;
			}
			remember(`Add ${visible(path, 60)}`, [{ path, before: null, after: hasServerValue(value) ? undefined : value }]);
			done(path);
			return "";
		},
	});
	return ok;
}

export async function remove(branch, done) {
	const { path } = branch;
	const found = await look(path);
	if (!found) return;
	const { value, words } = found;
	const ok = await dialog({
		title: `Delete ${nameOf(branch)}?`, confirm: `Delete ${words}`, danger: true,
		body: h("div", h("p", `${words} will be removed${path === "/" ? ": the whole database" : ""}.`),
			value === undefined ? h("p.warning", "It is too large to be undone here. Export it first, or make a backup.") : h("p.hint", "You can undo it as long as this page is open.")),
	});
	if (ok) await writeAll(`Delete ${nameOf(branch)}`, [{ path, before: value, after: null }], done);
}

/** Renames, moves or copies a node: both places in one update. */
export async function move(branch, done, { isCopy = false } = {}) {
	const from = branch.path;
	const found = await look(from);
	if (!found) return;
	if (found.value === undefined) return toast(`${nameOf(branch)} has ${found.words}: too many to move here.`, "error");
	const path = h("input.grow.path-input", { label: "New path", autofocus: true, value: isCopy ? `${from}-copy` : from });
	const preview = h("div");
	let changes = [];
	const problemOf = (to) => {
		const keys = split(to);
		if (keys.length === 0) return "The root is no place for it.";
		if (keys.length > DEPTH_LIMIT) return `A path has at most ${DEPTH_LIMIT} keys.`;
		if (to === from) return "This is where it is.";
		if (to.startsWith(from + "/") || from.startsWith(to + "/")) return "A node cannot be put into itself, or over what holds it.";
		return keys.map(problemOfKey).find(Boolean) ?? "";
	};
	const renew = async () => {
		const to = join(split(path.value));
		if (problemOf(to)) return preview.replaceChildren();
		const replaced = await session.read(to).catch(() => null);
		if (join(split(path.value)) !== to) return;
		changes = [{ path: to, before: replaced, after: found.value }, ...(isCopy ? [] : [{ path: from, before: found.value, after: null }])];
		preview.replaceChildren(replaced !== null ? h("p.warning", `What is at ${visible(to, 60)} is replaced.`) : "", diffList(changes));
	};
	let timer;
	path.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(renew, 150); });
	renew();
	const ok = await dialog({
		title: `${isCopy ? "Duplicate" : "Rename or move"} ${nameOf(branch)}`, confirm: isCopy ? "Duplicate" : "Move", wide: true,
		body: [h("label", "New path", path), preview],
		check: async () => problemOf(join(split(path.value))) || renew().then(() => ""),
	});
	if (ok) await writeAll(`${isCopy ? "Duplicate" : "Move"} ${nameOf(branch)}`, changes, done);
}

export async function importJSON(branch, done) {
	const file = h("input", { type: "file", accept: ".json,application/json", label: "File" });
	const text = h("textarea.code", { rows: 10, label: "JSON", placeholder: "or paste JSON here" });
	const label = `Import at ${nameOf(branch)}`;
	let after;
	const ok = await dialog({ title: label, confirm: "Review", wide: true, body: [file, text],
		check: async () => void (after = readJSON(file.files[0] ? await file.files[0].text() : text.value)) });
	if (!ok) return;
	const changes = [{ path: branch.path, before: (await look(branch.path))?.value, after }];
	if (await confirmChanges(label, changes)) await writeAll(label, changes, done);
}

export async function exportJSON(branch) {
	const response = await session.request(restPath(branch.path), { format: "export", print: "pretty" });
	if (!response.ok) return explain(new DatabaseError(response.status === 401 ? "permission_denied" : "failed", response.statusText), "Export");
	save(`${branch.key.replace(/[^\w.-]+/g, "_") || "export"}.json`, await response.blob());
}
