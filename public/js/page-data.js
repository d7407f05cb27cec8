import {session, link} from "./session.js"
import {writeParts, journalReader} from "./feed.js"
import {h, fill, button, choice, definitions, icon, iconButton, menu, copy, failed, fail, toast, visible, format} from "./dom.js"
import {TreeModel} from "./tree-model.js"
import * as view from "./tree-view.js"
import {split, join, problemOfKey} from "./keys.js"
import {stringify} from "./json.js"
import {attempt, whyButton} from "./denials.js"
import * as edit from "./edit.js"

const DETAILS_MS = 200 // between two looks at a busy value
const WRITES = 12 // in the details
const WRITERS_MS = 400 // from a selection until it is asked who wrote
const WRITERS_AGAIN_MS = 2000 // until it is asked again
const COPY_UNITS = 4 << 20 // of JSON
const PLACEHOLDERS = {key: "Key or /path", value: "Text in a value"}

const crumbs = h("nav.crumbs", {label: "Path"})
const findField = h("input.find", {type: "search", placeholder: PLACEHOLDERS.key, label: "Find a child by its key or value", onkeydown: find})
const findBy = choice("Find by", [["key", "Key"], ["value", "Value"]], {onchange: () => (findField.placeholder = PLACEHOLDERS[findBy.value])})
const undo = () => edit.undo().catch(failed)
const undoButton = button([icon("undo"), h("span", "Undo")], undo, ".tool")
const gatherButton = button([icon("gather"), h("span")], () => edit.gather().catch(failed), ".tool", {title: "Gather edits, then write them as one step"})
const notice = h(".notice", {role: "status"})
const writers = h("ol.writes")
const name = h("h2.grow")
const facts = h("div")
const fold = iconButton("right", "Show or hide the details", () => (fold.ariaExpanded = !details.classList.toggle("folded")), {class: "icon-button fold", ariaExpanded: true})
const details = h("aside.details", {label: "Selected node"}, h("header", name, iconButton("copy", "Copy path", () => copy(detailed.path, "Path copied")),
	iconButton("more", "Actions", event => showMenu(detailed, event.currentTarget)), fold), facts)
view.connect({
	edit: editLeaf, add, remove: edit.remove, more: showMenu, open: branch => open(branch.keys), up: () => keys.length && open(keys.slice(0, -1)),
	undo, find: () => findField.focus(), copy: copyJSON, selected, drawn, mark: edit.gatheredWords,
})
let keys, database, model, detailed, detailVersion, detailTimer
let isClosed = true
const journal = journalReader(WRITERS_AGAIN_MS, () => element.isConnected && view.selected?.keys, async signal => {
	const {path} = target()
	const list = await session.history(path, {limit: WRITES, part: "writes"}, signal)
		.then(found => found.writes.map(write => h("li", writeParts(write, path))), error => [h("li.hint", error.message)])
	if (!signal.aborted) fill(writers, list.length ? list : h("li.hint", "None."))
})

const target = () => view.selected ?? model.root
const go = (page, {keys}) => (location.hash = link(page, keys))
const open = keys => go("data", {keys})

export function show({keys: shownKeys}) {
	const isSame = database === session.database && join(keys) === join(shownKeys)
	if (isSame && isClosed) {
		model.open()
		view.showAgain()
		selected(target())
	}
	isClosed = false
	if (isSame) return
	keys = shownKeys
	database = session.database
	model = new TreeModel(keys)
	model.on("problem", showProblem)
	fill(notice)
	view.show(model)
	showCrumbs()
	selected(model.root)
}

function showCrumbs() {
	const crumb = (label, to, isLast) => h("a", {href: link("data", to), "aria-current": isLast && "page"}, visible(label, 40))
	requestAnimationFrame(() => (crumbs.scrollLeft = crumbs.scrollWidth))
	fill(crumbs, crumb(session.namespace, [], keys.length === 0),
		keys.map((key, index) => [h("span.slash", {ariaHidden: true}, "/"), crumb(key, keys.slice(0, index + 1), index === keys.length - 1)]))
}

function showProblem(error) {
	const {path} = model.root
	const words = error.code === "permission_denied" ? `${visible(session.actorName)} may not read ${visible(path)}.` : error.message
	fill(notice, h("p.problem", words, " ", whyButton(error, [{method: "read", path}])))
}

function drawn() {
	const {root} = model
	if (root.kind === "null" && !root.error && !notice.firstChild) {
		fill(notice, h(".empty", h("p", `There is nothing at ${visible(root.path)} yet.`),
			h("p", button("Add a child", () => add(root), ".primary"), " ", button("Import JSON", () => edit.importJSON(root)))))
	} else if (!root.error && !/^(null|unknown)$/.test(root.kind)) fill(notice)
	const branch = view.selected
	if (!branch || detailVersion === branch.version) return
	detailTimer ??= setTimeout(() => {
		detailTimer = undefined
		if (view.selected) showDetails(view.selected)
	}, DETAILS_MS)
}

function showUndo() {
	const step = edit.lastStep()
	undoButton.disabled = !step
	undoButton.title = step ? `Undo: ${step.label}` : "Nothing to undo"
	const {length} = edit.unwritten()
	gatherButton.ariaPressed = edit.gathered !== null
	gatherButton.lastChild.textContent = length ? `Write ${length}…` : "Gather"
}

function editLeaf(branch) {
	if (!/denied|unknown/.test(branch.kind)) edit.edit(branch).catch(failed)
}

async function add(branch) {
	if (await edit.add(branch)) model.expand(branch)
}

function showMenu(branch, anchor) {
	const isRoot = branch.path === "/"
	menu(anchor, [
		branch.isLeaf && ["Edit", editLeaf, "Enter"],
		["Edit as JSON…", edit.editJSON],
		["Add a child…", add, "Insert"],
		!isRoot && ["Rename or move…", edit.move],
		!isRoot && ["Duplicate…", () => edit.move(branch, true)],
		null,
		branch !== model.root && ["Show only this", () => open(branch.keys), "Shift Enter"],
		session.isAdmin && ["History", () => go("history", branch)],
		["Query its children", () => go("query", branch)],
		["Copy path", () => copy(branch.path, "Path copied")],
		["Copy as JSON", copyJSON, "Ctrl C"],
		null,
		["Import JSON…", edit.importJSON],
		["Export JSON", edit.exportJSON],
		["Delete…", edit.remove, "Del", "danger"],
	].filter(item => item !== false), branch)
}

function copyJSON(branch) {
	attempt("Copy", branch.path, async () => {
		const value = await session.read(branch.path, COPY_UNITS)
		if (value === undefined) return fail(`Larger than ${format.bytes(COPY_UNITS)}: export it instead.`)
		copy(stringify(value, 2), "Copied as JSON")
	})
}

async function find(event) {
	if (event.key === "Escape") return view.element.focus()
	if (event.key !== "Enter") return
	const text = findField.value
	const level = target().isExpanded ? target() : target().parent ?? model.root
	if (findBy.value === "value") return findValue(level, text.toLowerCase())
	if (text.includes("/")) return open(split(text))
	const problem = problemOfKey(text)
	if (problem) return fail(problem)
	await attempt("Search", level.path, async () => {
		const {offset, count, children = []} = await session.children(level.path, {from: text, limit: 1})
		if (!children[0]?.key.startsWith(text)) toast(`No key begins with “${visible(text, 40)}”: ${children.length ? "the next one" : "the last one"} is selected.`)
		view.element.focus()
		view.selectRow(model.rowOf({parent: level, index: Math.min(offset, count - 1)}))
	})
}

function findValue(level, text) {
	const loaded = level.loadedRows
	const start = loaded.indexOf(view.selected) + 1
	const found = [...loaded.slice(start), ...loaded.slice(0, start)].find(child => view.valueText(child).toLowerCase().includes(text))
	if (found) return view.select(found)
	const rest = loaded.length < level.count ? ` A query searches all ${format.count(level.count)}.` : ""
	toast(`No value of ${visible(level.path)} has this text, of ${format.count(loaded.length)} that are loaded.${rest}`)
}

function selected(branch) {
	fill(writers, !session.isAdmin && h("li.hint", "Only administrators see them."))
	journal.stop()
	if (session.isAdmin) journal.later(WRITERS_MS)
	showDetails(branch)
	session.emit("selected", branch.keys)
}

function showDetails(branch) {
	detailed = branch
	detailVersion = branch.version
	const {kind, count, length, priority} = branch
	const all = {
		Type: kind === "unknown" ? "…" : kind, Children: kind === "object" && format.count(count),
		Size: length > 0 && format.bytes(length), Priority: priority !== undefined && visible(JSON.stringify(priority)),
	}
	name.textContent = visible(branch.key)
	fill(facts,
		h(".path-line", visible(branch.path, 1000)),
		definitions(Object.entries(all)),
		branch.isLeaf && h("pre", {class: `value-box ${kind}`, tabIndex: 0}, visible(view.valueText(branch), 4000)),
		length > 0 && h("p", button("Show all", () => editLeaf(branch), ".small")),
		h("section", h(".together", h("h3.grow", "Latest writes"), session.isAdmin && h("a.hint", {href: link("history", branch.keys)}, "History")), writers),
		h("details", {open: facts.querySelector("details")?.open, ontoggle: ({target}) => showCode(target.lastChild, branch.keys)}, h("summary", "Code"), h("div")))
}

const showCode = async (place, keys) => fill(place, (await import("./snippets.js")).codeTable(keys))

edit.onWritten(path => {
	if (path) model?.touchPath(split(path))
	else model?.changed()
	showUndo()
})
showUndo()

export const element = h(".data-page",
	h(".tools", crumbs, findBy, findField, button([icon("add"), h("span", "Add")], () => add(target()), ".tool"), undoButton, gatherButton),
	h(".split", h(".tree-side", notice, view.element), details))

export const opened = () => view.element.focus({preventScroll: true})

// The root of the tree that is kept, where it has the path; otherwise the path.
export const rootOf = shown => (database === session.database && keys.every((key, place) => key === shown[place]) ? keys : shown)

export function close() {
	journal.stop()
	model.close()
	isClosed = true
}
