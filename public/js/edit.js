import {session, restPath} from "./session.js"
import {h, button, choice, counted, dialog, formParts, fail, failed, toast, save, visible, visibleLines, format} from "./dom.js"
import {attempt, explain} from "./denials.js"
import {parse, stringify, wrap, unwrap, kindOf, isObject, own} from "./json.js"
import {hash, join, split, isOnOneWay, problemOfKey, pushID} from "./keys.js"
import {openEditor, closeEditor} from "./tree-view.js"

const UNDO_NODES = 50000
const UNDO_UNITS = 4 << 20 // of its text
const HISTORY_UNITS = 32 << 20 // of all steps
const REST_UNITS = 1 << 20 // a longer value goes by REST
const DIFF_LIMIT = 200 // changes that are listed

const history = [] // {label, changes, namespace, units}
// Steps that wait to be written together; null while each is written at once.
export let gathered = null
let sent = null // those that are being written
const SENT = "These edits are being written."
const marks = new Map() // by database and path: words, or how many are inside
let written = () => {}
export const onWritten = listener => (written = listener)
export const unwritten = () => [...(sent ?? []), ...(gathered ?? [])]
export const lastStep = () => gathered?.at(-1) ?? (sent ? undefined : history.at(-1))

function remember(label, changes) {
	const kept = changes.map(({path, before, after}) => ({path, before, after: hasServerValue(after) ? undefined : after}))
	history.push({label, changes: kept, namespace: session.namespace, units: stringify(kept).length})
	while (history.reduce((sum, {units}) => sum + units, 0) > HISTORY_UNITS) history.shift()
}

const hasServerValue = value => isObject(value) && (Object.hasOwn(value, ".sv") || Object.values(value).some(hasServerValue))

const nameOf = ({path}) => visible(path)

const countNodes = value => value === null ? 0 : isObject(value) ? Object.values(value).reduce((sum, child) => sum + countNodes(child), 1) : 1

// What is at a path: {count, words, value}, without a value too large for undo; undefined where it can't be read.
const look = path => attempt("Read", path, async () => {
	const {nodes, more} = await session.children(path, {measure: "true", limit: 1})
	if (more || nodes > UNDO_NODES) return {count: nodes, words: `${more ? "more than " : ""}${counted(nodes, "node")}`}
	const value = await session.read(path, UNDO_UNITS)
	// Only administrators get a count.
	const count = nodes ?? (value === undefined ? Infinity : countNodes(value))
	return {count, words: count === Infinity ? "many nodes" : counted(count, "node"), ...(count <= UNDO_NODES && {value})}
})

async function lookAtAll(branch, deed) {
	const found = await look(branch.path)
	if (!found || found.value !== undefined) return found
	fail(`${nameOf(branch)} has ${found.words}: too many to ${deed}.`)
}

function put(path, value, ifHash) {
	const body = stringify(value)
	if (body.length < REST_UNITS) return session.database.set(path, value, ifHash)
	const [parameters, headers] = ifHash === undefined ? [{print: "silent"}] : [{}, {"If-Match": ifHash || "null_etag"}]
	return session.response(restPath(path), parameters, {method: "PUT", body, headers})
}

function overwrites(path, theirs, mine) {
	const side = (title, name, value) => h("div", h("h3", title), h("pre.snippet." + name, visibleLines(stringify(value, 2), 5000)))
	return dialog({
		title: "There is another value", confirm: "Overwrite with yours", danger: true,
		body: [h("p", `${visible(path)} does not hold the value that you saw. Nothing was written.`), h(".versions", side("There now", "theirs", theirs), side("Yours", "mine", mine))],
	})
}

// Pushes come in the order of commits, ours last: the value before ours is the one that we replaced.
const follow = change => session.database.listen(change.path, null, value => {
	change.replaced = change.latest
	change.latest = value
})

/** Writes changes, [{path, before, after}], as one step; whether that was done. An undefined `before` overwrites any value.
	One change is a compare-and-set. Several are compared just before the update, and followed until its answer. */
export async function write(label, changes, isUndo = false) {
	const done = changes.map(change => ({...change}))
	const known = done.filter(({before}) => before !== undefined)
	const isOne = done.length === 1
	const [{path, before, after}] = done
	const {database} = session
	const stops = isOne ? [] : known.map(follow)
	let isNewStep = !isUndo
	try {
		if (isOne) await put(path, after, before === undefined ? undefined : hash(before))
		else {
			for (const change of known) {
				const theirs = await session.read(change.path)
				if (hash(theirs) !== hash(change.before) && !(await overwrites(change.path, theirs, change.after))) return
				change.before = theirs
			}
			await database.update("/", Object.fromEntries(done.map(({path, after}) => [path.slice(1), after])))
		}
	} catch (error) {
		if (error.code !== "datastale") return explain(error, label, ...done.map(({path, after}) => ({method: "write", path, value: after})))
		const theirs = await attempt(label, path, () => session.read(path))
		return theirs !== undefined && (await overwrites(path, theirs, after)) && write(label, [{path, before: theirs, after}], isUndo)
	} finally {
		for (const stop of stops) stop()
	}
	for (const change of known) {
		const {replaced} = change
		if (replaced === undefined || hash(replaced) === hash(change.before)) continue
		change.before = replaced
		isNewStep = true // also an undo: it has overwritten something
		fail(`Another client changed ${nameOf(change)} just before; your edit replaced its value. Undo restores it.`)
	}
	if (isNewStep && known.length === done.length) remember(label, done)
	for (const {path} of done) written(path)
	return true
}

function isForeign(step, subject = "The gathered edits belong") {
	const isOther = step && step.namespace !== session.namespace
	if (isOther) fail(`${subject} to the database ${step.namespace}: open it first.`)
	return isOther
}

const isNested = (one, other) => one !== other && isOnOneWay(split(one), split(other))
const changesOf = steps => steps.flatMap(({changes}) => changes)

// What is gathered has changed.
function mark() {
	marks.clear()
	for (const {changes, namespace} of unwritten()) for (const change of changes) {
		const {path, after} = change
		const outer = marks.has(namespace + path) ? [] : split(path).map((_, depth, keys) => namespace + join(keys.slice(0, depth)))
		for (const one of outer) marks.set(one, (marks.get(one) ?? 0) + 1)
		marks.set(namespace + path, change.words ??= `gathered: ${after === null ? "delete" : visible(stringify(after), 80)}`)
	}
	written()
}

// What is gathered at a node or inside it, in words; "" where nothing is.
export function gatheredWords(branch) {
	const found = marks.get(session.namespace + branch.path) ?? ""
	return found > 0 ? `${found} gathered inside` : found
}

// Writes or gathers changes; whether that was done. The server takes no update of a place and of one inside it.
async function commit(label, changes) {
	if (!gathered) return await write(label, changes) ?? false
	const steps = unwritten()
	if (isForeign(steps[0])) return false
	const clash = changesOf(steps).find(one => changes.some(({path}) => isNested(path, one.path)))
	if (clash) return void fail(`${label}: one step can't change a place and another inside it, and ${nameOf(clash)} is gathered. Write or undo that first.`) ?? false
	gathered.push({label, changes, namespace: session.namespace})
	mark()
	return true
}

// Turns gathering on; or writes what is gathered, and turns it off. What comes meanwhile stays.
export async function gather() {
	if (sent) return fail(SENT)
	if (isForeign(gathered?.[0])) return
	if (gathered?.length) {
		const all = changesOf(gathered)
		const changes = [...new Map(all.map(change => [change.path, change])).values()]
		const again = changes.filter(({path}) => all.filter(one => one.path === path)[1])
		const words = again.length > 0 && h("p.warning", `Edited more than once: ${again.map(nameOf).join(", ")}. Only the last edit is written.`)
		const label = `Write ${counted(gathered.length, "edit")}`
		const answer = confirmChanges(label, changes, words);
		[sent, gathered] = [gathered, []]
		const isWritten = await answer.then(isSure => isSure && write(label, changes)).catch(failed)
		if (!isWritten) gathered.unshift(...sent)
		sent = null
	}
	gathered = gathered?.length === 0 ? null : gathered ?? []
	mark()
}

const confirmLabel = (label = "Write") => (gathered ? "Gather" : label)

export async function undo() {
	const isGathered = gathered?.length > 0
	const steps = isGathered ? gathered : history
	if (sent && !isGathered) return fail(SENT)
	const step = steps.pop()
	if (!step) return
	const {label, changes} = step
	const back = changes.map(({path, before, after}) => ({path, before: after, after: before}))
	if (isGathered) mark()
	else if (isForeign(step, "The last step belongs") || !(await write("Undo", back, true))) return steps.push(step)
	toast(`Undone: ${label}`)
}

const reader = kind => text => {
	const value = parse(text)
	if (kindOf(value) !== kind || Math.abs(Number(value)) === Infinity) throw new Error(`This is no ${kind}.`)
	return value
}

const READERS = {
	string: String, null: () => null, bare: text => (/^(true|false|null|-?\d+(\.\d+)?)$/.test(text) ? parse(text) : text), number: reader("number"), boolean: reader("boolean"), json: parse,
	timestamp: () => ({".sv": "timestamp"}), increment: text => ({".sv": {increment: READERS.number(text)}}),
}
const TYPES = ["string", "number", "boolean", "null", ["json", "JSON"], ["timestamp", "server time"], ["increment", "increment by"]]

export function valueField(data, {types = TYPES, tag = "input", hasPriority = true} = {}) {
	const {value, priority: known} = unwrap(data)
	const kind = kindOf(data)
	const isJSON = /object|null/.test(kind)
	const priority = h("input.priority-input", {label: "Priority", placeholder: "no priority", title: 'A number or text; "5" is text', value: known === undefined ? "" : stringify(known)})
	const readPriority = () => {
		for (const kind of ["number", "string"]) try { return reader(kind)(priority.value) } catch { /* text without quotes */ }
		return priority.value || undefined
	}
	const type = choice("Type", types, {class: "type", value: isJSON ? "json" : kind, onchange: () => {
		text.disabled = /timestamp|null/.test(type.value)
		if (type.value === "boolean" && !/^(true|false)$/.test(text.value)) text.value = "true"
	}})
	const text = h(tag, {class: "value-input", label: "Value", rows: 6, value: isJSON ? stringify(data) : String(value)})
	return {elements: hasPriority ? [type, text, priority] : [type, text], type, text, read: () => wrap(READERS[type.value](text.value), readPriority())}
}

// The paths at which two values differ: [{path, before, after}].
export function differences(before = null, after = null, keys) {
	if (before === after) return []
	const [a, b] = [before, after].map(unwrap)
	const areObjects = kindOf(before) === "object" && kindOf(after) === "object" && own(after, ".sv") === undefined
	if (!areObjects && a.value !== b.value) return [{path: join(keys), before, after}]
	const priority = differences(a.priority, b.priority, [...keys, ".priority"])
	if (!areObjects) return priority
	const names = Object.keys({...a.value, ...b.value}).filter(name => name !== ".priority")
	return [...priority, ...names.flatMap(name => differences(own(a.value, name), own(b.value, name), [...keys, name]))]
}

export function diffList(changes) {
	const line = (sign, kind, path, value) => value != null && h(`.${kind}`, h("span.sign", sign), h("span", visible(path)), h("span.what", visible(stringify(value))))
	const lines = changes.slice(0, DIFF_LIMIT).flatMap(({path, before, after}) => [line("−", "removed", path, before), line("+", "added", path, after)])
	return h(".diff", {tabIndex: 0, label: "Changes"}, lines, changes.length > DIFF_LIMIT && h("p", `and ${format.count(changes.length - DIFF_LIMIT)} more`))
}

export const confirmChanges = (title, changes, warning, confirm = "Write") => dialog({
	title, confirm, wide: true,
	body: [warning, h("p.hint", `${counted(changes.length, "change")}, written as one step.`), diffList(changes)],
})

// Edits a leaf in its row; text of several lines in a dialog, since a field drops line breaks; an object as JSON.
export async function edit(branch) {
	if (!branch.isLeaf && branch.kind !== "null") return editJSON(branch)
	const before = branch.length ? await session.read(branch.path) : wrap(branch.value, branch.priority)
	if (branch.length && kindOf(before) !== "string") return written(branch.path)
	const {value: text} = unwrap(before)
	if (/\r/.test(text)) return editJSON(branch) // a text area changes it
	const hasLines = /\n/.test(text)
	const field = valueField(before, {tag: hasLines ? "textarea" : "input"})
	const run = () => {
		const after = field.read()
		const isSame = !hasServerValue(after) && hash(after) === hash(before)
		return isSame || commit(`Set ${nameOf(branch)}`, [{path: branch.path, before, after}])
	}
	if (hasLines) {
		Object.assign(field.text, {rows: 18, autofocus: true})
		return dialog({title: nameOf(branch), confirm: confirmLabel(), wide: true, body: h(".together", field.elements), check: run})
	}
	const onkeydown = event => {
		if (event.key === "Escape") closeEditor()
		event.stopPropagation()
	}
	const {problem, submit, onsubmit} = formParts(confirmLabel("Save"), run, () => closeEditor(form), ".primary.small")
	const form = h("form.row.editor", {onsubmit, onkeydown}, h("span.twisty"), h("span.key", visible(branch.key)), field.elements,
		submit, button("Cancel", () => closeEditor(), ".small"), problem)
	openEditor(branch, form)
	field.text.focus()
	field.text.select()
}

// Asks for JSON, shows what it changes of what is `seen`, or of what is there, and writes it.
function review({path, keys}, title, label, body, read, seen) {
	const check = async () => {
		const after = parse(await read())
		const {value: before, words = "what is there"} = seen ?? (await look(path)) ?? {}
		const changes = before === undefined ? [{path, after}] : differences(before, after, keys)
		if (changes.length === 0) return void toast("Nothing is different.")
		const warning = before === undefined && h("p.warning", `It replaces ${words}, and can't be undone.`)
		return await confirmChanges(label, changes, warning, confirmLabel()) && commit(label, [{path, before, after}])
	}
	return dialog({title, confirm: "Review", wide: true, body, check})
}

export async function editJSON(branch) {
	const found = await lookAtAll(branch, "edit as text")
	if (!found) return
	const text = h("textarea.code", {rows: 18, autofocus: true, label: "JSON", value: stringify(found.value, 2)})
	await review(branch, nameOf(branch), `Change ${nameOf(branch)}`, text, () => text.value, found)
}

export async function add(branch) {
	if (branch.isLeaf) return toast("A value has no children: edit it as JSON.")
	const key = h("input.grow", {label: "Key", autofocus: true})
	const field = valueField("", {tag: "textarea"})
	const check = () => {
		const problem = problemOfKey(key.value)
		if (problem) return problem
		const value = field.read()
		if (value === null) return "null adds nothing."
		const path = join([...branch.keys, key.value])
		return commit(`Add ${visible(path)}`, [{path, before: null, after: value}])
	}
	return dialog({
		title: `Add to ${nameOf(branch)}`, confirm: confirmLabel("Add"), check,
		body: [h("label", "Key", h("span.together", key, button("Push id", () => (key.value = pushID(session.database.now))))),
			h("label", "Value", h("span.together", field.elements))],
	})
}

export async function remove(branch) {
	const {path} = branch
	const {value, words} = (await look(path)) ?? {}
	if (!words) return
	const body = [h("p", `${words} will be removed${path === "/" ? ": the whole database" : ""}.`),
		value === undefined ? h("p.warning", "Too large to undo: export it first.") : h("p.hint", "Undo works while this page is open.")]
	const label = `Delete ${nameOf(branch)}`
	if (await dialog({title: `${label}?`, confirm: confirmLabel(`Delete ${words}`), danger: true, body})) await commit(label, [{path, before: value, after: null}])
}

export async function move(branch, isCopy = false) {
	const {path: from} = branch
	const found = await lookAtAll(branch, "move here")
	if (!found) return
	const field = h("input.path-input", {label: "New path", autofocus: true, value: isCopy ? `${from}-copy` : from})
	let path
	const check = () => {
		const keys = split(field.value)
		path = join(keys)
		if (keys.length === 0) return "It can't be the root."
		if (path === from) return "This is where it is."
		if (isNested(path, from)) return "A node can't go into itself, or over what holds it."
		return keys.map(problemOfKey).find(Boolean)
	}
	const words = `${isCopy ? "Duplicate" : "Rename or move"} ${nameOf(branch)}`
	if (!(await dialog({title: words, confirm: "Review", wide: true, body: h("label", "New path", field), check}))) return
	const changes = [{path, before: await session.read(path).catch(() => {}), after: found.value}, ...(isCopy ? [] : [{path: from, before: found.value, after: null}])]
	if (await confirmChanges(words, changes, null, confirmLabel())) await commit(words, changes)
}

export function importJSON(branch) {
	const file = h("input", {type: "file", accept: ".json,application/json", label: "File"})
	const text = h("textarea.code", {rows: 10, label: "JSON", placeholder: "or JSON"})
	const label = `Import at ${nameOf(branch)}`
	return review(branch, label, label, [file, text], () => file.files[0]?.text() ?? text.value)
}

export const exportJSON = branch => attempt("Export", branch.path, async () => {
	const response = await session.response(restPath(branch.path), {format: "export", print: "pretty"})
	save(`${branch.key.replace(/[^\w.-]+/g, "_") || "export"}.json`, await response.blob())
})
