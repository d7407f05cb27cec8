// The tree as far as it is looked at. Pages of rows, with kind and size in place of data, are loaded when they come into
// view, and again after a write there; without a feed every second.

import {session, Emitter} from "./session.js"
import {feed, isWrite} from "./feed.js"
import {stringify} from "./json.js"
import {join, isOnOneWay} from "./keys.js"

const PAGE = 100 // rows
const KEPT_PAGES = 300 // of one level
const NEAR_PAGES = 3 // that stay then, on each side
const LOAD_LIMIT = 4 // at the same time
const REFRESH_MS = 150 // between two requests for what has changed
const SWEEP_MS = 5000 // for what the feed does not tell
const POLL_MS = 1000 // of users who have no feed

const UNKNOWN = {kind: "unknown", value: null, length: 0, priority: undefined, count: 0, preview: null}

export class Branch {
	constructor(key, parent) {
		Object.assign(this, UNKNOWN, {
			key, parent, index: 0, near: 0, depth: parent ? parent.depth + 1 : 0, isExpanded: false, isGone: false, error: null, byKey: new Map(), expanded: new Set(),
			described: null, // what the data was taken from
			version: 0, // what is shown has changed
			changedAt: 0, // the data has
			writer: null, // of the last write that was heard of: {by, uid}
			writtenAt: 0,
			pages: new Map(), // by number: {rows, isStale, isLoading, loadedAt}
		})
	}

	get isLeaf() {
		return /string|number|boolean/.test(this.kind)
	}

	get keys() {
		return this.parent ? [...this.parent.keys, this.key] : this.rootKeys
	}

	get path() {
		return join(this.keys)
	}

	// Rows that it has opened.
	get below() {
		return this.isExpanded ? [...this.expanded].reduce((sum, child) => sum + child.below, this.count) : 0
	}

	childAt(index) {
		return this.pages.get(Math.floor(index / PAGE))?.rows[index % PAGE]
	}

	makeStale() {
		for (const page of this.pages.values()) page.isStale = true
	}

	get loadedRows() {
		return [...this.pages].sort(([a], [b]) => a - b).flatMap(([, {rows}]) => rows)
	}

	take(description) {
		const text = stringify(description)
		if (text === this.described) return
		if (this.described && !this.isExpanded) this.changedAt = performance.now()
		Object.assign(this, UNKNOWN, description, {described: text})
		this.version++
	}
}

export class TreeModel extends Emitter {
	loads = 0

	constructor(keys) {
		super()
		this.root = Object.assign(new Branch(keys.at(-1) ?? session.namespace, null), {rootKeys: keys, isExpanded: true})
		this.open()
		this.load(this.root, 0)
	}

	open() {
		const {signal} = (this.ends = new AbortController())
		feed.on("records", records => records.filter(isWrite).forEach(record => this.touchPath(record.path ?? [], record)), {signal})
		feed.on("open", () => this.refreshAll(), {signal})
		this.sweep = setInterval(() => !document.hidden && this.refreshAll(), session.isAdmin ? SWEEP_MS : POLL_MS)
		this.refreshAll()
	}

	close() {
		this.ends.abort()
		clearInterval(this.sweep)
		clearTimeout(this.refreshTimer)
	}

	changed() {
		this.emit("change")
	}

	get rowCount() {
		return 1 + this.root.below
	}

	// The branch at a row counted from another one; its parent and place where it is not loaded.
	rowAt(row, branch = this.root) {
		if (row === 0) return branch
		let index = row - 1
		for (const child of [...branch.expanded].sort((a, b) => a.index - b.index)) {
			if (index < child.index) break
			if (index <= child.index + child.below) return this.rowAt(index - child.index, child)
			index -= child.below
		}
		return branch.childAt(index) ?? {parent: branch, index}
	}

	rowOf(branch) {
		const {parent, index} = branch
		if (branch === this.root) return 0
		const row = branch.isGone || !parent.isExpanded ? -1 : this.rowOf(parent)
		return row < 0 ? -1 : [...parent.expanded].reduce((sum, sibling) => sum + (sibling.index < index ? sibling.below : 0), row + 1 + index)
	}

	expand(branch) {
		if (branch.kind !== "object" || branch.isExpanded) return
		branch.isExpanded = true
		branch.parent?.expanded.add(branch)
		branch.makeStale()
		this.changed()
	}

	collapse(branch) {
		if (!branch.isExpanded || branch === this.root) return
		branch.isExpanded = false
		branch.parent.expanded.delete(branch)
		this.changed()
	}

	show(first, last) {
		for (let row = first; row <= last; row++) {
			const {parent, index} = this.rowAt(row)
			const branch = parent ?? this.root
			branch.near = Math.floor(index / PAGE)
			this.load(branch, branch.near)
		}
	}

	async load(branch, number) {
		const page = branch.pages.get(number) ?? {rows: [], isStale: true}
		if (page.isLoading || !page.isStale) return
		if (performance.now() - page.loadedAt < REFRESH_MS) return this.refreshSoon()
		if (this.loads >= LOAD_LIMIT) return // the end of one shows the rows again
		this.loads++
		Object.assign(page, {isLoading: true, isStale: false})
		branch.pages.set(number, page)
		try {
			const answer = await session.children(branch.path, {offset: number * PAGE, limit: PAGE})
			if (this.ends.signal.aborted) return
			branch.error = null
			this.take(branch, number, page, answer)
		} catch (error) {
			if (this.ends.signal.aborted) return
			const isNew = branch.error?.message !== error.message
			branch.error = error
			if (error.code === "permission_denied") Object.assign(branch, {count: 0, kind: "denied"})
			branch.version++
			if (isNew && branch === this.root) this.emit("problem", error)
		} finally {
			this.loads--
			page.isLoading = false
			page.loadedAt = performance.now()
		}
		this.changed()
	}

	take(branch, number, entry, answer) {
		const {offset, children = [], ...description} = answer
		const {kind, count = 0} = description
		const hadCount = branch.count
		if (branch === this.root || kind === "object") branch.take(description)
		if (kind !== "object") {
			branch.count = 0
			for (const child of branch.expanded) child.isGone = true
			branch.expanded.clear()
			branch.byKey.clear()
			branch.pages.clear()
			entry.rows = []
			branch.pages.set(number, entry)
			if (branch !== this.root) this.collapse(branch)
			return
		}
		const before = new Set(entry.rows)
		entry.rows = children.map((child, place) => {
			const known = branch.byKey.get(child.key)
			const row = known ?? new Branch(child.key, branch)
			branch.byKey.set(child.key, row)
			row.take(child)
			Object.assign(row, {index: number * PAGE + place, isGone: false})
			if (!known && entry.loadedAt && hadCount < count) row.changedAt = performance.now()
			if (row.kind !== "object" && row.isExpanded) this.collapse(row)
			before.delete(row)
			return row
		})
		for (const row of before) {
			if (row.isExpanded) continue
			branch.byKey.delete(row.key)
			row.isGone = true
		}
		if (hadCount !== count || before.size) {
			for (const [other, page] of branch.pages) if (other !== number) page.isStale = true
			for (const child of branch.expanded) if (!entry.rows.includes(child)) this.findPlace(child)
		}
		this.forgetPages(branch)
	}

	async findPlace(child) {
		const {parent} = child
		try {
			const {offset, children = []} = await session.children(parent.path, {from: child.key, limit: 1})
			child.isGone = children[0]?.key !== child.key
			if (child.isGone) {
				parent.expanded.delete(child)
				parent.byKey.delete(child.key)
			} else child.index = offset
			this.changed()
		} catch { /* the next page tells */ }
	}

	forgetPages({pages, byKey, near}) {
		if (pages.size <= KEPT_PAGES) return
		for (const [number, {rows, isLoading}] of pages) {
			if (isLoading || Math.abs(number - near) <= NEAR_PAGES) continue
			for (const row of rows) if (!row.isExpanded) byKey.delete(row.key)
			pages.delete(number)
		}
	}

	// Something was written at a path, by `writer` where that is known.
	touchPath(keys, writer) {
		const rootKeys = this.root.keys
		if (!isOnOneWay(rootKeys, keys)) return
		this.refreshSoon()
		let branch = this.root // the deepest one with a row
		let child = branch
		for (const key of keys.slice(rootKeys.length)) {
			child = branch.byKey.get(key)
			if (!child) {
				branch.makeStale()
				break
			}
			if (child.kind === "object" && !child.isExpanded) child.changedAt = performance.now()
			this.stale(branch, child.index)
			branch = child
			if (!child.isExpanded) break
		}
		if (writer?.by) Object.assign(branch, {writer, writtenAt: performance.now()})
		if (child?.isExpanded) this.staleBelow(branch)
	}

	stale(branch, index) {
		const page = branch.pages.get(Math.floor(index / PAGE))
		if (page) page.isStale = true
	}

	staleBelow(branch) {
		if (branch.parent) this.stale(branch.parent, branch.index)
		branch.makeStale()
		for (const child of branch.expanded) this.staleBelow(child)
	}

	refreshAll() {
		this.staleBelow(this.root)
		this.changed()
	}

	refreshSoon() {
		this.refreshTimer ??= setTimeout(() => {
			this.refreshTimer = undefined
			this.changed()
		}, REFRESH_MS)
	}
}
