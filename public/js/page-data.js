// The tree with its tools, and the details of the selected node.

import { session, link } from "./session.js";
import { feed, concerns, writerOf } from "./feed.js";
import { h, choice, icon, iconButton, menu, copy, toast, visible, formatCount, formatBytes, formatMoment } from "./dom.js";
import { TreeModel } from "./tree-model.js";
import * as view from "./tree-view.js";
import { split, join, problemOfKey } from "./keys.js";
import { stringify } from "./json.js";
import { codeTable } from "./snippets.js";
import * as edit from "./edit.js";

const DETAILS_MS = 200; // between two looks of the details at a value that changes all the time
const WRITES = 12; // in the details
const WRITERS_MS = 400; // until it is asked who wrote at a node that was selected
const WRITERS_AGAIN_MS = 2000; // until it is asked again after another write
const SLOW_LOG_MS = 1500; // of an answer; then History is one click away
const COPY_UNITS = 4 << 20; // of JSON in the clipboard
const PLACEHOLDERS = { key: "Go to key or /path", value: "Text in a value" };

const crumbs = h("nav.crumbs", { label: "Path" });
const findField = h("input.find", { type: "search", placeholder: PLACEHOLDERS.key, label: "Find a child by its key or value", onkeydown: find });
const findBy = choice("Find by", [["key", "Key"], ["value", "Value"]], { onchange: () => (findField.placeholder = PLACEHOLDERS[findBy.value]) });
const undoButton = h("button.tool", { onclick: undo }, icon("undo"), h("span", "Undo"));
const notice = h("div.notice", { role: "status" });
const writers = h("ol.writes");
const details = h("aside.details", { label: "Selected node" });
view.connect({
	edit: editLeaf, add, remove: edit.remove, more: showMenu, open: (branch) => open(branch.keys), up: () => keys.length && open(keys.slice(0, -1)),
	undo, find: () => findField.focus(), copy: copyJSON, selected, drawn,
});
let keys, database, model, detailVersion, detailTimer;
let writersTimer, writtenAt, isLogSlow, asking; // see askWriters

const target = () => view.selected ?? model.root;
const failed = (error) => toast(error.message, "error");
const open = (keys) => (location.hash = link("data", keys));

export function show({ keys: shownKeys }) {
	if (database === session.database && keys && join(keys) === join(shownKeys)) return;
	keys = shownKeys;
	database = session.database;
	model = new TreeModel(keys);
	model.addEventListener("problem", (event) => showProblem(event.detail));
	notice.replaceChildren();
	view.show(model);
	showCrumbs();
	selected(model.root);
}

function showCrumbs() {
	const crumb = (label, to, isLast) => h("a", { href: link("data", to), "aria-current": isLast && "page" }, visible(label, 40));
	crumbs.replaceChildren(crumb(session.namespace, [], keys.length === 0),
		...keys.flatMap((key, index) => [h("span.slash", { "aria-hidden": "true" }, "/"), crumb(key, keys.slice(0, index + 1), index === keys.length - 1)]));
}

function showProblem({ branch, error }) {
	if (branch !== model.root) return;
	const isDenied = error.code === "permission_denied";
	const why = isDenied && session.isAdmin && h("button.link", { onclick: async () => edit.showDenial((await session.inspect("denials")).denials[0]) }, "Why?");
	notice.replaceChildren(h("p.problem", isDenied ? `${visible(session.actorName, 60)} may not read ${visible(branch.path, 80)}.` : error.message, " ", why));
}

function drawn() {
	const { root } = model;
	if (root.kind === "null" && !root.error && !notice.firstChild) {
		notice.replaceChildren(h("div.empty", h("p", `There is nothing at ${visible(root.path, 80)} yet.`),
			h("p", h("button.primary", { onclick: () => add(root) }, "Add a child"), " ", h("button", { onclick: () => edit.importJSON(root) }, "Import JSON"))));
	} else if (!/^(null|denied|unknown)$/.test(root.kind)) notice.replaceChildren();
	const branch = view.selected;
	if (!branch || detailVersion === branch.version) return;
	detailTimer ??= setTimeout(() => {
		detailTimer = undefined;
		if (view.selected) showDetails(view.selected);
	}, DETAILS_MS);
}

function showUndo() {
	const step = edit.lastStep();
	undoButton.disabled = !step;
	undoButton.title = step ? `Undo: ${step.label}` : "Nothing to undo";
}

function editLeaf(branch) {
	if (branch.kind !== "denied" && branch.kind !== "unknown") edit.edit(branch).catch(failed);
}

async function add(branch) {
	if (await edit.add(branch)) model.expand(branch);
}

function undo() {
	edit.undo().catch(failed);
}

function showMenu(branch, anchor) {
	const isRoot = branch.path === "/";
	menu(anchor, [
		branch.isLeaf && ["Edit", () => editLeaf(branch), "Enter"],
		["Edit as JSON…", () => edit.editJSON(branch)],
		["Add a child…", () => add(branch), "Insert"],
		!isRoot && ["Rename or move…", () => edit.move(branch)],
		!isRoot && ["Duplicate…", () => edit.move(branch, { isCopy: true })],
		null,
		branch !== model.root && ["Show only this", () => open(branch.keys), "Shift Enter"],
		session.isAdmin && ["History", () => (location.hash = link("history", branch.keys))],
		["Query its children", () => (location.hash = link("query", branch.keys))],
		["Copy path", () => copy(branch.path, "Path copied")],
		["Copy as JSON", () => copyJSON(branch), "Ctrl C"],
		null,
		["Import JSON…", () => edit.importJSON(branch)],
		["Export JSON", () => edit.exportJSON(branch)],
		["Delete…", () => edit.remove(branch), "Del", "danger"],
	].filter((item) => item !== false));
}

async function copyJSON(branch) {
	try {
		const text = stringify(await session.read(branch.path), 2);
		if (text.length > COPY_UNITS) return toast(`${formatBytes(text.length)} are too much for the clipboard: export them.`, "error");
		copy(text, `${formatBytes(text.length)} of JSON copied`);
	} catch (error) {
		edit.explain(error, "Copy");
	}
}

/** Goes to a key, or to a value, of the level in which the selected node is, or which it opens. */
async function find(event) {
	if (event.key === "Escape") return view.element.focus();
	if (event.key !== "Enter") return;
	const text = findField.value;
	const level = target().isExpanded ? target() : target().parent ?? model.root;
	if (findBy.value === "value") return findValue(level, text.toLowerCase());
	if (text.includes("/")) return open(split(text));
	const problem = problemOfKey(text);
	if (problem) return toast(problem, "error");
	try {
		const { offset, count, children = [] } = await session.children(level.path, { from: text, limit: 1 });
		if (!children.length) toast(`No key from “${visible(text, 40)}” on; these are the last.`);
		const index = Math.min(offset, count - 1);
		let row = model.rowOf(level) + 1 + index;
		for (const child of level.expanded) if (child.index < index) row += child.below;
		view.element.focus();
		view.selectRow(row);
	} catch (error) {
		edit.explain(error, "Search");
	}
}

/** Selects the next loaded child of the level, after the selected one, whose value or preview has a text. */
function findValue(level, text) {
	const loaded = level.loadedRows;
	const start = loaded.indexOf(view.selected) + 1;
	const found = [...loaded.slice(start), ...loaded.slice(0, start)].find((child) => view.valueText(child).toLowerCase().includes(text));
	if (found) return view.select(found);
	toast(`No value of ${visible(level.path, 60)} has this text, of ${formatCount(loaded.length)} that are loaded${loaded.length < level.count ? ` (there are ${formatCount(level.count)}: a query finds values in all of them)` : ""}.`);
}

function selected(branch) {
	writers.replaceChildren(session.isAdmin ? "" : h("li.hint", "Only administrators see them."));
	writtenAt = 0;
	asking?.abort();
	askWriters(branch, WRITERS_MS);
	showDetails(branch);
}

function showDetails(branch) {
	detailVersion = branch.version;
	const facts = {
		Type: branch.kind === "unknown" ? "…" : branch.kind, Children: branch.kind === "object" && formatCount(branch.count),
		Size: branch.length > 0 && formatBytes(branch.length), Priority: branch.priority !== undefined && visible(JSON.stringify(branch.priority)),
	};
	details.replaceChildren(...[
		h("header", h("h2", visible(branch.key, 80)), iconButton("copy", "Copy path", () => copy(branch.path, "Path copied")),
			iconButton("more", "Actions", (event) => showMenu(branch, event.currentTarget))),
		h("div.path-line", visible(branch.path, 400)),
		h("dl", Object.entries(facts).map(([name, value]) => value && [h("dt", name), h("dd", value)])),
		branch.isLeaf && h("pre", { class: `value-box ${branch.kind}`, tabIndex: 0 }, visible(view.valueText(branch), 4000)),
		h("section", h("div.together", h("h3.grow", "Latest writes"), session.isAdmin && h("a.hint", { href: link("history", branch.keys) }, "History")), writers),
		h("details", { open: details.querySelector("details")?.open }, h("summary", "Code"), codeTable(branch.keys)),
	].filter(Boolean));
}

/** Shows who wrote at the node, as the journal has it, once the selection rests; no more where that takes long. */
function askWriters(branch, delay) {
	clearTimeout(writersTimer);
	if (!session.isAdmin || isLogSlow) return;
	writersTimer = setTimeout(async () => {
		asking?.abort();
		const { signal } = (asking = new AbortController());
		const began = performance.now();
		try {
			const { at, writes } = await session.history(branch.path, { limit: WRITES, part: "writes" }, signal);
			writers.replaceChildren(...writes.map((write) => h("li", h("time", formatMoment(write.time)), h("span.write-kind", writerOf(write)), h("span.write-path", placeOf(write.path, branch.path)))));
			writersTimer = undefined;
			if (writtenAt > at) askWriters(branch, WRITERS_AGAIN_MS);
		} catch (error) {
			if (signal.aborted) return;
			writersTimer = undefined;
			writers.replaceChildren(h("li.hint", error.message));
		}
		isLogSlow ||= performance.now() - began > SLOW_LOG_MS;
	}, delay);
}

/** Where a write was, seen from a node. */
const placeOf = (path, from) => path === from ? "this node" : path.startsWith(from) ? visible(path.slice(from.length > 1 ? from.length : 0), 80) : "above it";

feed.addEventListener("records", ({ detail }) => {
	const branch = element.isConnected && view.selected;
	const latest = branch && detail.findLast((record) => concerns(record, branch.keys));
	if (!latest) return;
	writtenAt = latest.timestamp;
	if (writersTimer === undefined) askWriters(branch, WRITERS_AGAIN_MS);
});
edit.onWritten((path) => {
	model?.touchPath(split(path));
	showUndo();
});
showUndo();

export const element = h("div.data-page",
	h("div.tools", crumbs, findBy, findField, h("span.space"), h("button.tool", { onclick: () => add(target()) }, icon("add"), h("span", "Add")), undoButton),
	h("div.split", h("div.tree-side", notice, view.element), details));

export const opened = () => view.element.focus({ preventScroll: true });

export function close() {
	asking?.abort();
	clearTimeout(writersTimer);
	model.close();
	database = undefined;
}
