import { session, link } from "./session.js";
import { feed, concerns, writerOf } from "./feed.js";
import { h, choice, icon, iconButton, menu, copy, toast, visible, formatCount, formatBytes, formatMoment } from "./dom.js";
import { TreeModel } from "./tree-model.js";
import { TreeView, valueText } from "./tree-view.js";
import { split, join, problemOfKey } from "./keys.js";
import { stringify } from "./json.js";
import { snippets } from "./snippets.js";
import * as edit from "./edit.js";

const DETAILS_MS = 200; // between two looks of the details at a value that changes all the time
const WRITES = 12; // in the details
const WRITERS_MS = 400; // until the log is asked who wrote at a node that was selected
const WRITERS_AGAIN_MS = 2000; // until it is asked again after another write
const SLOW_LOG_MS = 1500; // of an answer; then History is one click away
const COPY_UNITS = 4 << 20; // of JSON in the clipboard

export class DataPage {
	constructor({ keys }) {
		this.crumbs = h("nav.crumbs", { label: "Path" });
		this.findField = h("input.find", { type: "search", placeholder: "Go to key or /path", label: "Go to the first child from this key on",
			onkeydown: (event) => this.findKey(event) });
		this.undoButton = h("button.tool", { onclick: () => this.undo() }, icon("undo"), h("span", "Undo"));
		this.tree = h("div.tree", { role: "tree", tabIndex: 0, label: "Data" });
		this.notice = h("div.notice", { role: "status" });
		this.details = h("aside.details", { label: "Selected node" });
		this.element = h("div.data-page",
			h("div.tools", this.crumbs, this.findField, h("span.space"),
				h("button.tool", { onclick: () => this.add(this.target) }, icon("add"), h("span", "Add")),
				this.undoButton,
				iconButton("upload", "Import JSON at the selected node", () => edit.importJSON(this.target, this.done)),
				iconButton("download", "Export the selected node as JSON", () => edit.exportJSON(this.target))),
			h("div.split", h("div.tree-side", this.notice, this.tree), this.details));
		this.view = new TreeView(this.tree, {
			edit: (branch) => this.edit(branch), add: (branch) => this.add(branch), remove: (branch) => edit.remove(branch, this.done),
			menu: (branch, anchor) => this.showMenu(branch, anchor), open: (branch) => this.open(branch.keys), up: () => this.keys.length && this.open(this.keys.slice(0, -1)),
			undo: () => this.undo(), find: () => this.findField.focus(), copy: (branch) => branch && this.copyJSON(branch),
			selected: (branch) => this.showDetails(branch), drawn: () => this.drawn(),
		});
		this.done = (path) => this.model.touchPath(split(path));
		edit.onHistory(() => this.showUndo());
		this.update({ keys });
		this.showUndo();
	}

	opened() {
		this.tree.focus({ preventScroll: true });
	}

	close() {
		this.asking?.abort();
		clearTimeout(this.askTimer);
		this.model?.close();
	}

	update({ keys }) {
		if (this.database === session.database && this.keys && join(this.keys) === join(keys)) return true;
		this.keys = keys;
		this.database = session.database;
		this.model = new TreeModel(keys);
		this.model.addEventListener("problem", (event) => this.showProblem(event.detail));
		this.notice.replaceChildren();
		this.view.show(this.model);
		this.showCrumbs();
		this.showDetails(this.model.root);
		return true;
	}

	get target() {
		return this.view.selected ?? this.model.root;
	}

	open(keys) {
		location.hash = link("data", keys);
	}

	showCrumbs() {
		const crumb = (label, keys, isLast) => h("a", { href: link("data", keys), "aria-current": isLast ? "page" : null, title: join(keys) }, visible(label, 40));
		this.crumbs.replaceChildren(crumb(session.namespace, [], this.keys.length === 0),
			...this.keys.flatMap((key, place) => [h("span.slash", { "aria-hidden": "true" }, "/"), crumb(key, this.keys.slice(0, place + 1), place === this.keys.length - 1)]));
	}

	showProblem({ branch, error }) {
		if (branch !== this.model.root) return;
		const isDenied = error.code === "permission_denied";
		const why = isDenied && session.isAdmin && h("button.link", { onclick: async () => edit.showDenial((await session.denials()).denials[0]) }, "Why?");
		this.notice.replaceChildren(h("p.problem", isDenied ? `${visible(session.actorName, 60)} may not read ${visible(branch.path, 80)}.` : error.message, " ", why));
	}

	drawn() {
		const { root } = this.model;
		if (root.kind === "null" && !root.error && !this.notice.firstChild) {
			this.notice.replaceChildren(h("div.empty", h("p", `There is nothing at ${visible(root.path, 80)} yet.`),
				h("p", h("button.primary", { onclick: () => this.add(root) }, "Add a child"), " ",
					h("button", { onclick: () => edit.importJSON(root, this.done) }, "Import JSON"))));
		} else if (!/^(null|denied|unknown)$/.test(root.kind)) this.notice.replaceChildren();
		const branch = this.view.selected;
		if (!branch || (this.detailVersion === branch.version && !this.model.hasNewWrites)) return;
		this.detailTimer ??= setTimeout(() => {
			this.detailTimer = undefined;
			if (this.view.selected) this.showDetails(this.view.selected);
		}, DETAILS_MS);
	}

	showUndo() {
		const step = edit.lastStep();
		this.undoButton.disabled = !step;
		this.undoButton.title = step ? `Undo: ${step.label}` : "Nothing to undo";
	}

	edit(branch) {
		if (branch.kind === "denied" || branch.kind === "unknown") return;
		edit.edit(this.view, branch, this.done).catch((error) => toast(error.message, "error"));
	}

	async add(branch) {
		if (await edit.add(branch, this.done)) this.model.expand(branch);
	}

	undo() {
		edit.undo(this.done).catch((error) => toast(error.message, "error"));
	}

	showMenu(branch, anchor) {
		const isRoot = branch.path === "/";
		menu(anchor, [
			branch.isLeaf && { label: "Edit", hint: "Enter", run: () => this.edit(branch) },
			{ label: "Edit as JSON…", run: () => edit.editJSON(branch, this.done) },
			{ label: "Add a child…", hint: "Insert", run: () => this.add(branch) },
			!isRoot && { label: "Rename or move…", run: () => edit.move(branch, this.done) },
			!isRoot && { label: "Duplicate…", run: () => edit.move(branch, this.done, { isCopy: true }) },
			null,
			branch !== this.model.root && { label: "Show only this", hint: "Shift Enter", run: () => this.open(branch.keys) },
			session.isAdmin && { label: "History", run: () => (location.hash = link("history", branch.keys)) },
			{ label: "Query its children", run: () => (location.hash = link("query", branch.keys)) },
			{ label: "Copy path", run: () => copy(branch.path, "Path copied") },
			{ label: "Copy as JSON", hint: "Ctrl C", run: () => this.copyJSON(branch) },
			null,
			{ label: "Import JSON…", run: () => edit.importJSON(branch, this.done) },
			{ label: "Export JSON", run: () => edit.exportJSON(branch) },
			{ label: "Delete…", hint: "Del", danger: true, run: () => edit.remove(branch, this.done) },
		].filter((item) => item !== false));
	}

	async copyJSON(branch) {
		try {
			const text = stringify(await session.read(branch.path), 2);
			if (text.length > COPY_UNITS) return toast(`${formatBytes(text.length)} are too much for the clipboard: export them.`, "error");
			copy(text, `${formatBytes(text.length)} of JSON copied`);
		} catch (error) {
			edit.explain(error, "Copy");
		}
	}

	async findKey(event) {
		if (event.key === "Escape") return this.tree.focus();
		if (event.key !== "Enter") return;
		const text = this.findField.value;
		if (text.includes("/")) return this.open(split(text));
		const selected = this.target;
		const branch = selected.isExpanded ? selected : selected.parent ?? this.model.root;
		const problem = problemOfKey(text);
		if (problem) return toast(problem, "error");
		try {
			if (session.seesAll) {
				const { offset, count, children = [] } = await session.children(branch.path, { from: text, limit: 1 });
				if (!children.length) toast(`No key from “${visible(text, 40)}” on; these are the last.`);
				const index = Math.min(offset, count - 1);
				let row = this.model.rowOf(branch) + 1 + index;
				for (const child of branch.expanded) if (child.index < index) row += child.below;
				this.tree.focus();
				return await this.view.selectRow(row);
			}
			this.open([...branch.keys, text]);
		} catch (error) {
			edit.explain(error, "Search");
		}
	}

	showDetails(branch) {
		this.detailVersion = branch.version;
		this.model.hasNewWrites = false;
		const isObject = branch.kind === "object";
		const facts = {
			Type: branch.kind === "unknown" ? "…" : branch.kind, Children: isObject && formatCount(branch.count),
			Size: branch.length > 0 && formatBytes(branch.length), Priority: branch.priority !== undefined && visible(JSON.stringify(branch.priority)),
		};
		const open = this.details.querySelector("details")?.open;
		const samples = new Map(snippets(branch.keys));
		const sample = h("pre.snippet", { tabIndex: 0 });
		const show = () => (sample.textContent = samples.get(language.value));
		const language = choice("Language", [...samples.keys()], { onchange: show });
		language.value = this.details.querySelector("select")?.value ?? "curl";
		show();
		this.askWriters(branch);
		this.details.replaceChildren(...[
			h("div.details-head", h("h2", visible(branch.key, 80)), iconButton("copy", "Copy path", () => copy(branch.path, "Path copied")),
				iconButton("more", "Actions", (event) => this.showMenu(branch, event.currentTarget))),
			h("div.path-line", visible(branch.path, 400)),
			h("dl", Object.entries(facts).map(([name, value]) => value && [h("dt", name), h("dd", value)])),
			branch.isLeaf && h("pre", { class: `value-box ${branch.kind}`, tabIndex: 0 }, visible(valueText(branch), 4000)),
			h("section", h("div.together", h("h3.grow", "Latest writes"), session.isAdmin && h("a.hint", { href: link("history", branch.keys) }, "History")), this.listWrites(branch)),
			h("details", { open }, h("summary", "Code"), h("div.together", language, iconButton("copy", "Copy the line", () => copy(sample.textContent, "Line copied"))), sample),
		].filter(Boolean));
	}

	/** The writes that the log told of, and those that the feed has seen since. */
	listWrites(branch) {
		const logged = this.logged?.path === branch.path ? this.logged : { at: 0, writes: [] };
		const seen = this.model.writes.filter((record) => record.timestamp > logged.at && concerns(record, branch.keys))
			.map(({ timestamp, path, name }) => ({ time: timestamp, path: join(path), words: name.replace("realtime-", "").replace("rest-", "REST ") }));
		const writes = [...seen, ...logged.writes].slice(0, WRITES);
		if (writes.length === 0) return h("p.hint", feed.isLive ? "None that the log reaches." : session.isAdmin ? "Connecting…" : "Only administrators see them.");
		return h("ol.writes", writes.map(({ time, path, words, ...write }) => h("li", h("time", formatMoment(time)), h("span.write-kind", words ?? writerOf(write)),
			h("span.write-path", path === branch.path ? "this node" : path.startsWith(branch.path) ? visible(path.slice(branch.path.length > 1 ? branch.path.length : 0), 80) : "above it"))));
	}

	/** Asks the log who wrote at the node, once the selection rests; no more where the answer takes long. */
	askWriters(branch) {
		const { path } = branch;
		if (!session.isAdmin || this.isLogSlow) return;
		if (this.askedPath !== path) {
			this.asking?.abort();
			clearTimeout(this.askTimer);
			this.askTimer = undefined;
		} else if (this.logged?.path === path && !this.model.writes.some((record) => record.timestamp > this.logged.at)) return;
		this.askTimer ??= setTimeout(async () => {
			const { signal } = (this.asking = new AbortController());
			const began = performance.now();
			try {
				const { at, writes } = await session.history(path, { limit: WRITES, part: "writes" }, signal);
				this.logged = { path, at, writes };
			} catch {
				this.isLogSlow ||= !signal.aborted;
			}
			if (signal.aborted) return;
			this.isLogSlow ||= performance.now() - began > SLOW_LOG_MS;
			this.askTimer = undefined;
			if (this.view.selected === branch) this.showDetails(branch);
		}, this.askedPath === path ? WRITERS_AGAIN_MS : WRITERS_MS);
		this.askedPath = path;
	}
}
