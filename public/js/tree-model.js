// The tree as far as it is looked at. Rows are loaded by pages when they come into view, with kind and size in place of
// data. Leaves in view are listened to; the feed says where else something was written.

import { session, restPath } from "./session.js";
import { feed, isWrite } from "./feed.js";
import { kindOf, stringify, unwrap } from "./json.js";
import { join } from "./keys.js";

const PAGE = 100; // rows
const KEPT_PAGES = 300; // of one level
const REFRESH_MS = 150; // between two requests for what has changed
const SWEEP_MS = 5000; // what no feed tells, such as writes of clients that went away
const LISTEN_LIMIT = 120;
const LISTEN_DELAY_MS = 80; // rows that scroll by are not listened to
const SHOWN_UNITS = 512; // of a string

/** One node that has, or had, a row. */
export class Branch {
	constructor(key, parent) {
		Object.assign(this, { key, parent, index: 0, kind: "unknown", value: null, length: 0, priority: undefined, count: 0, preview: null, previewText: null });
		Object.assign(this, { depth: parent ? parent.depth + 1 : 0, isExpanded: false, isGone: false, error: null, byKey: new Map(), expanded: new Set() });
		this.version = 0; // what is shown has changed
		this.changedAt = 0; // the data has
		this.pages = new Map(); // by number: {rows, isStale, isLoading}
	}

	get isLeaf() {
		return this.kind === "string" || this.kind === "number" || this.kind === "boolean";
	}

	get keys() {
		return this.parent ? [...this.parent.keys, this.key] : this.rootKeys;
	}

	get path() {
		return join(this.keys);
	}

	get below() {
		if (!this.isExpanded) return 0;
		let count = this.count;
		for (const child of this.expanded) count += child.below;
		return count;
	}

	get expandedInOrder() {
		return [...this.expanded].sort((a, b) => a.index - b.index);
	}

	childAt(index) {
		return this.pages.get(Math.floor(index / PAGE))?.rows[index % PAGE];
	}

	take({ kind, value = null, length = 0, priority, count = 0, preview = null }) {
		const text = preview && stringify(preview);
		const isNew = kind !== this.kind || text !== this.previewText || value !== this.value || length !== this.length || priority !== this.priority || count !== this.count;
		if (!isNew) return false;
		if (this.kind !== "unknown" && !this.isExpanded) this.changedAt = performance.now();
		Object.assign(this, { kind, value, length, priority, count, preview, previewText: text });
		this.version++;
		return true;
	}
}

export class TreeModel extends EventTarget {
	constructor(keys) {
		super();
		this.root = new Branch(keys.at(-1) ?? session.namespace, null);
		this.root.rootKeys = keys;
		this.root.isExpanded = true;
		this.writes = []; // the latest, newest first
		this.listens = new Map(); // by branch: a function that ends it
		this.watched = [];
		this.ends = new AbortController();
		feed.addEventListener("records", (event) => this.receive(event.detail), { signal: this.ends.signal });
		feed.addEventListener("live", () => feed.isLive && this.refreshAll(), { signal: this.ends.signal });
		this.sweep = setInterval(() => document.visibilityState === "visible" && this.refreshAll(), SWEEP_MS);
		this.load(this.root, 0);
	}

	close() {
		this.ends.abort();
		clearInterval(this.sweep);
		clearTimeout(this.refreshTimer);
		clearTimeout(this.watchTimer);
		for (const end of this.listens.values()) end();
		this.listens.clear();
	}

	changed() {
		this.dispatchEvent(new Event("change"));
	}

	get rowCount() {
		return 1 + this.root.below;
	}

	rowAt(row) {
		if (row === 0) return this.root;
		let branch = this.root;
		let rest = row - 1;
		search: while (true) {
			let place = 0;
			for (const child of branch.expandedInOrder) {
				const gap = child.index - place;
				if (rest < gap) break;
				rest -= gap;
				if (rest === 0) return child;
				if (rest <= child.below) {
					branch = child;
					rest -= 1;
					continue search;
				}
				rest -= 1 + child.below;
				place = child.index + 1;
			}
			return branch.childAt(place + rest) ?? { parent: branch, index: place + rest };
		}
	}

	rowOf(branch) {
		if (branch === this.root) return 0;
		const parent = branch.parent;
		if (branch.isGone || !parent.isExpanded) return -1;
		let row = this.rowOf(parent);
		if (row < 0) return -1;
		row += 1 + branch.index;
		for (const sibling of parent.expanded) if (sibling.index < branch.index) row += sibling.below;
		return row;
	}

	expand(branch) {
		if (branch.kind !== "object" || branch.isExpanded) return;
		branch.isExpanded = true;
		branch.version++;
		branch.parent?.expanded.add(branch);
		for (const page of branch.pages.values()) page.isStale = true;
		this.changed();
	}

	collapse(branch) {
		if (!branch.isExpanded || branch === this.root) return;
		branch.isExpanded = false;
		branch.version++;
		branch.parent.expanded.delete(branch);
		this.changed();
	}

	show(first, last) {
		const shown = [];
		for (let row = first; row <= last; row++) {
			const found = this.rowAt(row);
			if (found instanceof Branch) shown.push(found);
			this.load(found.parent ?? this.root, Math.floor(found.index / PAGE));
		}
		this.watch(shown);
	}

	async load(branch, number) {
		const page = branch.pages.get(number);
		if (page && (page.isLoading || !page.isStale)) return;
		if (page && performance.now() - page.loadedAt < REFRESH_MS) return this.refreshSoon();
		const entry = page ?? { rows: [] };
		Object.assign(entry, { isLoading: true, isStale: false });
		branch.pages.set(number, entry);
		try {
			const answer = session.seesAll
				? await session.children(branch.path, { offset: number * PAGE, limit: PAGE })
				: await this.listByRules(branch, number);
			if (this.ends.signal.aborted) return;
			branch.error = null;
			this.take(branch, number, entry, answer);
		} catch (error) {
			if (this.ends.signal.aborted) return;
			const isNew = branch.error?.message !== error.message;
			branch.error = error;
			if (error.code === "permission_denied") Object.assign(branch, { count: 0, kind: "denied" });
			branch.version++;
			if (isNew) this.dispatchEvent(new CustomEvent("problem", { detail: { branch, error } }));
		} finally {
			entry.isLoading = false;
			entry.loadedAt = performance.now();
		}
		this.changed();
	}

	take(branch, number, entry, answer) {
		const { kind, value, length, priority, count = 0, children = [] } = answer;
		const hadCount = branch.count;
		if (branch === this.root || kind === "object") branch.take({ kind, value, length, priority, count });
		if (kind !== "object") {
			branch.count = 0;
			for (const child of branch.expanded) child.isGone = true;
			branch.expanded.clear();
			branch.byKey.clear();
			branch.pages.clear();
			entry.rows = [];
			branch.pages.set(number, entry);
			if (branch !== this.root) this.collapse(branch);
			return;
		}
		const before = new Set(entry.rows);
		entry.rows = children.map((child, place) => {
			let row = branch.byKey.get(child.key);
			const isNew = !row;
			if (isNew) branch.byKey.set(child.key, (row = new Branch(child.key, branch)));
			// A listen is ahead of the page.
			if (!(this.listens.has(row) && row.isLeaf && child.kind !== "object")) row.take(child);
			if (row.index !== number * PAGE + place) row.version++;
			row.index = number * PAGE + place;
			row.isGone = false;
			if (isNew && entry.loadedAt && hadCount < count) row.changedAt = performance.now();
			if (row.kind !== "object" && row.isExpanded) this.collapse(row);
			before.delete(row);
			return row;
		});
		for (const row of before) {
			if (row.isExpanded) continue;
			branch.byKey.delete(row.key);
			row.isGone = true;
		}
		if (hadCount !== count || before.size) {
			for (const [other, page] of branch.pages) if (other !== number) page.isStale = true;
			for (const child of branch.expanded) if (!entry.rows.includes(child)) this.findPlace(child);
		}
		this.forgetPages(branch, number);
	}

	async findPlace(child) {
		const parent = child.parent;
		if (!session.seesAll) return;
		try {
			const { offset, children = [] } = await session.children(parent.path, { from: child.key, limit: 1 });
			if (children[0]?.key === child.key) {
				child.index = offset;
				child.isGone = false;
			} else {
				child.isGone = true;
				parent.expanded.delete(child);
				parent.byKey.delete(child.key);
			}
			this.changed();
		} catch { /* the next page tells */ }
	}

	forgetPages(branch, near) {
		if (branch.pages.size <= KEPT_PAGES) return;
		const farthest = [...branch.pages.keys()].sort((a, b) => Math.abs(b - near) - Math.abs(a - near));
		for (const number of farthest.slice(0, branch.pages.size - KEPT_PAGES)) {
			for (const row of branch.pages.get(number).rows) if (!row.isExpanded) branch.byKey.delete(row.key);
			branch.pages.delete(number);
		}
	}

	async listByRules(branch, number) {
		branch.starts ??= [null];
		if (branch.starts[number] === undefined) return { kind: "object", count: branch.count, children: [] };
		const parameters = { shallow: "true", limitToFirst: PAGE + 1 };
		if (number > 0) parameters.startAfter = branch.starts[number];
		const found = await session.json(restPath(branch.path), parameters);
		if (found === null || typeof found !== "object") {
			const value = await session.database.get(branch.path);
			return value !== null && typeof unwrap(value).value === "object" ? { kind: "object", count: 0, children: [] } : describe(value);
		}
		const names = Object.keys(found);
		const hasMore = names.length > PAGE;
		if (hasMore) branch.starts[number + 1] = names[PAGE - 1];
		branch.isPartial = branch.starts.length > number + 1;
		return {
			kind: "object", count: Math.max(number * PAGE + names.length, hasMore ? branch.count : 0),
			children: names.slice(0, PAGE).map((key) => {
				const { kind = "unknown", value, length, priority, count } = branch.byKey.get(key) ?? {};
				return { key, kind, value, length, priority, count };
			}),
		};
	}

	async ask(branch) {
		branch.isAsked = true;
		try {
			const found = await session.json(restPath(branch.path), { shallow: "true", limitToFirst: PAGE });
			if (found !== null && typeof found === "object") branch.take({ kind: "object", count: Object.keys(found).length });
			else branch.take(describe(await session.database.get(branch.path)));
		} catch {
			branch.take({ kind: "denied" });
		}
		branch.isAsked = false;
		this.changed();
	}

	watch(shown) {
		this.watched = shown;
		clearTimeout(this.watchTimer);
		this.watchTimer = setTimeout(() => {
			const wanted = new Set(this.watched.filter((branch) => branch.isLeaf).slice(0, LISTEN_LIMIT));
			for (const [branch, end] of this.listens) {
				if (wanted.has(branch)) continue;
				end();
				this.listens.delete(branch);
			}
			for (const branch of wanted) if (!this.listens.has(branch)) this.listen(branch);
			for (const branch of this.watched) if (branch.kind === "unknown" && branch.parent && !branch.isAsked) this.ask(branch);
		}, LISTEN_DELAY_MS);
	}

	listen(branch) {
		const end = session.database.listen(branch.path, null, (value) => {
			const description = describe(value);
			if (description.kind === "object") {
				end();
				this.listens.delete(branch);
			}
			if (description.kind === "object" || description.kind === "null") return this.touch(branch);
			if (branch.take(description)) this.changed();
		}, () => this.listens.delete(branch));
		this.listens.set(branch, end);
	}

	receive(records) {
		for (const record of records) {
			if (isWrite(record)) this.touchPath(record.path ?? [], record);
		}
	}

	touchPath(keys, record) {
		const rootKeys = this.root.keys;
		const isInside = rootKeys.every((key, index) => keys[index] === key || index >= keys.length);
		if (!isInside) return;
		if (record) {
			this.writes.unshift(record);
			if (this.writes.length > 60) this.writes.length = 50;
			this.hasNewWrites = true;
		}
		let branch = this.root;
		for (let place = rootKeys.length; place < keys.length; place++) {
			const child = branch.byKey.get(keys[place]);
			if (!child) {
				for (const page of branch.pages.values()) page.isStale = true;
				return this.refreshSoon();
			}
			const isCovered = place === keys.length - 1 && this.listens.has(child);
			if (!isCovered) {
				if (child.kind === "object" && !child.isExpanded) child.changedAt = performance.now();
				this.stale(branch, child.index);
			}
			if (!child.isExpanded) return this.refreshSoon();
			branch = child;
		}
		this.staleBelow(branch);
		this.refreshSoon();
	}

	touch(branch) {
		if (branch.parent) this.stale(branch.parent, branch.index);
		this.refreshSoon();
	}

	stale(branch, index) {
		const page = branch.pages.get(Math.floor(index / PAGE));
		if (page) page.isStale = true;
	}

	staleBelow(branch) {
		if (branch.parent) this.stale(branch.parent, branch.index);
		for (const page of branch.pages.values()) page.isStale = true;
		for (const child of branch.expanded) this.staleBelow(child);
	}

	refreshAll() {
		this.staleBelow(this.root);
		this.changed();
	}

	refreshSoon() {
		this.refreshTimer ??= setTimeout(() => {
			this.refreshTimer = undefined;
			this.changed();
		}, REFRESH_MS);
	}
}

/** A value of the export form as a page describes it. */
export function describe(data) {
	const { value, priority } = unwrap(data);
	const kind = kindOf(data);
	if (kind === "object") return { kind, count: Object.keys(value).length, priority };
	if (kind !== "string") return { kind, value, priority };
	return value.length > SHOWN_UNITS ? { kind, value: value.slice(0, SHOWN_UNITS), length: new TextEncoder().encode(value).length, priority } : { kind, value, priority };
}
