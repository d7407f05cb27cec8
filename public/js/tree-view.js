import {h, counted, icon, iconButton, inNextFrame, visible, format} from "./dom.js"
import {Branch} from "./tree-model.js"
import {writerName} from "./feed.js"
import {isObject, stringify} from "./json.js"

const ROW = matchMedia("(pointer: coarse)").matches ? 40 : 24 // pixels
const HEIGHT_LIMIT = 8e6 // pixels that every browser can scroll
const OVERSCAN = 6 // rows
const INDENT = 18 // pixels
// The colour is constant for 400 ms, then fades: a value that changes again by then is not repainted each frame.
const FLASH_TIMES = {delay: 400, duration: 500, fill: "backwards", easing: "ease-out"}
const WRITER_MS = 4000 // that a row names the writer
const FLASH = ["var(--flash)", "transparent"].map(color => ({backgroundColor: color, boxShadow: `0 0 0 3px ${color}`}))
const stillness = matchMedia("(prefers-reduced-motion: reduce)")

export function valueText(branch) {
	const {kind, value, length} = branch
	if (kind === "object") return previewText(branch)
	// Of a long string the beginning is known.
	return {string: length ? `${JSON.stringify(value).slice(0, -1)}…` : JSON.stringify(value), denied: "permission denied", unknown: "", placeholder: ""}[kind] ?? String(value)
}

function previewText({preview, count, isExpanded}) {
	if (!preview || isExpanded) return ""
	const parts = Object.entries(preview).map(([name, value]) => `${name}: ${isObject(value) ? "{…}" : stringify(value)}`)
	return parts.join(", ") + (count > parts.length ? ", …" : "")
}

function put(element, attributes) {
	for (const [name, value] of Object.entries(attributes)) {
		if (value === null) element.removeAttribute(name)
		else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value)
	}
}

const write = (element, text) => element.textContent === text || (element.textContent = text)

const changed = inNextFrame(() => model && draw())
const spacer = h(".spacer", {role: "presentation"})
export const element = h(".tree", {
	role: "tree", tabIndex: 0, label: "Data",
	onkeydown: pressed, onclick: onRow(clicked), ondblclick: onRow(doubleClicked), oncontextmenu: onRow(menuAsked), onscroll: scrolled,
}, spacer)
element.style.setProperty("--row", `${ROW}px`)
element.addEventListener("wheel", wheeled, {passive: false})
new ResizeObserver(changed).observe(element)

const pool = [] // elements of rows
// The branch that is selected; null while its row is being loaded.
export let selected = null
let actions = {} // what keys and clicks do, by name
let model, editor, knownScrollTop
let [currentRow, topRow] = [0, 0] // topRow may be inside of a row

export const connect = given => (actions = given)

export function show(shown) {
	model?.close()
	closeEditor();
	[model, selected, currentRow, topRow] = [shown, shown.root, 0, 0]
	element.scrollTop = 0
	for (const row of pool) row.branch = null
	model.addEventListener("change", changed)
	changed()
}

export const showAgain = () => scrollTo(topRow)

const rowsInView = () => Math.max(1, Math.floor(element.clientHeight / ROW))

const hiddenRows = () => Math.max(0, model.rowCount - element.clientHeight / ROW)

// Pixels of `scrollTop` for a row: fewer where there are more rows than a browser can scroll.
function rowScroll() {
	const height = Math.min(model.rowCount * ROW, HEIGHT_LIMIT)
	return hiddenRows() ? (height - element.clientHeight) / hiddenRows() : ROW
}

function scrolled() {
	const {scrollTop} = element
	if (!model || Math.abs(scrollTop - knownScrollTop) < 2) return
	knownScrollTop = scrollTop
	topRow = scrollTop / rowScroll()
	changed()
}

function scrollTo(row) {
	topRow = Math.max(0, Math.min(row, hiddenRows()))
	element.scrollTop = topRow * rowScroll()
	knownScrollTop = element.scrollTop
	changed()
}

// The wheel moves by rows also where a pixel of `scrollTop` is many.
function wheeled(event) {
	if (!model || rowScroll() > ROW / 2 || event.ctrlKey || event.deltaY === 0) return
	event.preventDefault()
	scrollTo(topRow + (event.deltaMode === 1 ? event.deltaY : event.deltaY / ROW))
}

function reveal(row) {
	if (row < topRow) scrollTo(row)
	else if (row > topRow + rowsInView() - 1) scrollTo(row - rowsInView() + 1)
}

function draw() {
	const count = model.rowCount
	spacer.style.height = `${Math.min(count * ROW, HEIGHT_LIMIT)}px`
	topRow = Math.min(topRow, hiddenRows())
	const first = Math.max(0, Math.floor(topRow) - OVERSCAN)
	const last = Math.min(count - 1, Math.ceil(topRow + element.clientHeight / ROW) + OVERSCAN)
	model.show(first, last)
	const base = Math.round(element.scrollTop - topRow * ROW)
	while (pool.length <= last - first) pool.push(makeRow())
	const selectedRow = selected ? model.rowOf(selected) : -1
	if (selectedRow >= 0) currentRow = selectedRow
	pool.forEach((rowElement, place) => {
		// The element of a row stays the same while it is in view.
		const row = place + pool.length * Math.ceil((first - place) / pool.length)
		rowElement.hidden = row > last
		if (rowElement.hidden) rowElement.branch = null
		else drawRow(rowElement, row, model.rowAt(row), base + row * ROW)
	})
	element.setAttribute("aria-activedescendant", `row-${currentRow}`)
	placeEditor(base)
	actions.drawn()
}

function placeRow(row, top, depth) {
	Object.assign(row.style, {transform: `translateY(${top}px)`, paddingLeft: `${depth * INDENT + 6}px`})
}

function makeRow() {
	const row = h(".row", {role: "treeitem"})
	row.parts = ["key", "badge", "value", "priority", "mark", "writer"].map(name => h("span", {class: name}))
	row.append(h("span.twisty", {ariaHidden: true}, icon("right")), ...row.parts,
		h("span.row-actions", {ariaHidden: true}, [["edit", "Edit"], ["add", "Add a child"], ["more", "More"]].map(([name, label]) =>
			iconButton(name, label, undefined, {tabIndex: -1, "data-action": name}))))
	spacer.append(row)
	return row
}

function drawRow(rowElement, row, found, top) {
	const branch = found instanceof Branch ? found : {kind: "placeholder", key: "…", depth: found.parent.depth + 1, changedAt: 0, writtenAt: 0}
	const {kind, depth, count, parent, priority, length} = branch
	const isParent = kind === "object"
	const [key, value] = [visible(branch.key, 160), visible(valueText(branch), 300)]
	const children = isParent ? counted(count, "child", "children") : ""
	const [keyPart, badge, valuePart, priorityPart, markPart, writerPart] = rowElement.parts
	const mark = branch === found ? actions.mark(branch) : ""
	placeRow(rowElement, top, depth)
	put(rowElement, {
		id: `row-${row}`, class: `row ${kind}${parent || kind === "placeholder" ? "" : " root"}${branch.isExpanded ? " expanded" : ""}`, "aria-label": `${key}: ${children || value}${mark && `, ${mark}`}`,
		"aria-selected": row === currentRow, "aria-level": depth + 1, "aria-expanded": isParent && parent ? branch.isExpanded : null,
		"aria-posinset": parent ? branch.index + 1 : null, "aria-setsize": parent ? parent.count : null,
	})
	put(badge, {title: children})
	write(keyPart, key)
	write(badge, isParent ? format.count(count) : length ? format.bytes(length) : "")
	write(valuePart, value)
	write(markPart, mark)
	write(priorityPart, priority === undefined ? "" : `priority ${visible(JSON.stringify(priority), 40)}`)
	const isSame = rowElement.branch === found
	const isNew = isSame && branch.changedAt > rowElement.flashedAt && !stillness.matches
	if (!isSame || isNew) rowElement.flash?.cancel()
	if (isNew) rowElement.flash = (isParent ? keyPart : valuePart).animate(FLASH, FLASH_TIMES)
	if (branch.writtenAt !== rowElement.writtenAt) showWriter(rowElement, writerPart, branch)
	Object.assign(rowElement, {row, branch: found instanceof Branch ? found : null, flashedAt: branch.changedAt})
}

function showWriter(rowElement, part, {writer, writtenAt}) {
	const left = writtenAt + WRITER_MS - performance.now()
	rowElement.writtenAt = writtenAt
	clearTimeout(rowElement.naming)
	write(part, writer && left > 0 ? writerName(writer) : "")
	if (part.textContent) rowElement.naming = setTimeout(() => write(part, ""), left)
}

export function openEditor(branch, form) {
	closeEditor()
	editor = {branch, form, row: currentRow}
	spacer.append(form)
	reveal(model.rowOf(branch))
	changed()
}

function placeEditor(base) {
	if (!editor) return
	const row = model.rowOf(editor.branch)
	if (row >= 0) editor.row = row // what is typed stays where its row was
	placeRow(editor.form, base + editor.row * ROW, editor.branch.depth)
}

export function closeEditor(form = editor?.form) {
	if (!editor || form !== editor.form) return
	editor = null
	const hadFocus = form.contains(document.activeElement)
	form.remove()
	if (hadFocus) element.focus({preventScroll: true})
}

export function select(branch, {reveals = true} = {}) {
	selected = branch
	const row = model.rowOf(branch)
	if (row >= 0) {
		currentRow = row
		if (reveals) reveal(row)
	}
	actions.selected(branch)
	changed()
}

export function selectRow(row) {
	const target = Math.max(0, Math.min(row, model.rowCount - 1))
	currentRow = target
	reveal(target)
	selected = null
	const shown = model
	const wait = () => {
		const isOver = currentRow !== target || selected || shown !== model
		const found = shown.rowAt(target)
		if (!isOver && !(found instanceof Branch)) return
		shown.removeEventListener("change", wait)
		if (!isOver) select(found)
	}
	shown.addEventListener("change", wait)
	wait()
	changed()
}

function onRow(run) {
	return event => {
		const branch = event.target.closest(".row")?.branch
		if (branch) run(event, branch)
	}
}

const toggle = branch => (branch.isExpanded ? model.collapse(branch) : model.expand(branch))

function clicked(event, branch) {
	const button = event.target.closest("[data-action]")
	select(branch, {reveals: false})
	if (event.target.closest(".twisty")) toggle(branch)
	else if (button) actions[button.dataset.action](branch, button)
}

function doubleClicked(event, branch) {
	if (event.target.closest("button")) return
	if (branch.kind === "object") toggle(branch)
	else actions.edit(branch)
}

function menuAsked(event, branch) {
	event.preventDefault()
	select(branch, {reveals: false})
	const show = () => actions.more(branch, event)
	// The release of the button would close it.
	if (event.buttons) addEventListener("pointerup", () => setTimeout(show), {once: true})
	else show()
}

function pressed(event) {
	if (event.target !== element || !model) return
	const {key, shiftKey, altKey} = event
	const isCommand = event.ctrlKey || event.metaKey
	const move = {
		ArrowDown: currentRow + 1, ArrowUp: currentRow - 1, PageDown: currentRow + rowsInView() - 1, PageUp: currentRow - rowsInView() + 1, Home: 0, End: Infinity,
	}[key]
	const branch = selected
	const isParent = branch?.kind === "object"
	const menu = () => actions.more(branch, document.getElementById(`row-${currentRow}`))
	const act = branch && {
		ArrowRight: () => (isParent && !branch.isExpanded ? model.expand(branch) : branch.below && selectRow(currentRow + 1)),
		ArrowLeft: () => (branch.isExpanded && branch.parent ? model.collapse(branch) : branch.parent && select(branch.parent)),
		Enter: () => (shiftKey ? actions.open(branch) : isParent ? toggle(branch) : actions.edit(branch)),
		" ": () => toggle(branch),
		F2: () => actions.edit(branch),
		Insert: () => actions.add(branch), "+": () => actions.add(branch),
		Delete: () => actions.remove(branch),
		ContextMenu: menu, F10: () => shiftKey && menu(),
	}[key]
	const command = isCommand && {z: actions.undo, c: !getSelection().toString() && branch && (() => actions.copy(branch))}[key.toLowerCase()]
	const run = isCommand ? command : !altKey && (move !== undefined ? () => selectRow(move) : act || {Backspace: actions.up, "/": actions.find}[key])
	if (!run) return
	event.preventDefault()
	run()
}
