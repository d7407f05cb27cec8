import "../vendor/codemirror/codemirror.js"
import "../vendor/codemirror/simple.js"
import "../vendor/codemirror/show-hint.js"
import "../vendor/diff.js"
import {session, link} from "./session.js"
import {h, fill, button, choice, dialog, failed, toast, visible, format} from "./dom.js"
import * as playground from "./rules-playground.js"
import {withIndex} from "./rules-index.js"
import {denialPanel} from "./denials.js"
import {split} from "./keys.js"
import {readTable} from "./json.js"

const CONTEXT = 3 // lines around a difference
const KINDS = {"-": "removed", "+": "added"}
const CHECK_MS = 500 // after the last change
const PATH = "/.settings/rules.json"

CodeMirror.defineSimpleMode("rules", await readTable("rules-mode"))

const {keys, variables, members} = await readTable("completions")

// Completions at a line's end: {typed, words}; they begin with `typed`.
export function completions(line, source) {
	const [typed] = /[\w$]*$/.exec(line)
	const owner = line.slice(0, line.length - typed.length)
	const isExpression = owner.replace(/\\./g, "").split('"').length % 2 === 0 && owner.includes(":")
	let words = []
	if (/^\s*"\.$/.test(owner)) words = keys
	else if (isExpression && owner.endsWith(".")) words = members.find(([pattern]) => new RegExp(pattern).test(owner.slice(0, -1)))?.[1] ?? []
	else if (isExpression && typed) words = [...variables, ...new Set(source.match(/\$\w+/g))]
	return {typed, words: words.filter(word => word.startsWith(typed) && word !== typed)}
}

// The server's `line:column: message` lines.
const readErrors = text => text.split("\n").filter(Boolean).map(text => {
	const [, line = 0, column = 0, message = text] = /^(?:.*?:)?(\d+):(\d+): (.*)$/.exec(text) ?? []
	return {line: Number(line), column: Number(column), message}
})

function hint(editor) {
	const {line, ch} = editor.getCursor()
	const {typed, words} = completions(editor.getLine(line).slice(0, ch), draft())
	return {list: words, from: {line, ch: ch - typed.length}, to: {line, ch}}
}

const frame = h(".editor-frame")
const styles = ["show-hint", "codemirror"].map(name => h("link", {rel: "stylesheet", href: `/vendor/codemirror/${name}.css`}))
const editor = CodeMirror(frame, {
	mode: "rules", theme: "pando", lineNumbers: true, indentUnit: 2, screenReaderLabel: "Rules", hintOptions: {hint, completeSingle: false},
	extraKeys: {"Ctrl-Space": "autocomplete", "Ctrl-S": () => isDifferent() && publish(), Tab: false, "Shift-Tab": false},
})
const errorList = h("ol.errors", {role: "alert"})
const state = h("span.hint", {role: "status"})
const publishButton = button("Publish", publish, ".primary")
let namespace, published, checkTimer, loaded
let [badLines, marks] = [[], []]
const storage = () => `pando.rules.${namespace}` // of the draft
const draft = () => editor.getValue()
const isDifferent = () => draft() !== published

const readPublished = async () => (await session.response(PATH, {}, {asSelf: true})).text()

async function load() {
	const wanted = (namespace = session.namespace), kept = sessionStorage.getItem(storage())
	editor.setValue((published = ""))
	try {
		const text = await readPublished()
		if (wanted !== namespace) return
		editor.setValue((published = text))
		editor.clearHistory()
		if (kept) editor.setValue(kept)
	} catch (error) {
		namespace = undefined
		state.textContent = `The rules can't be read: ${error.message}`
	}
}

function changed() {
	mark([])
	playground.changed()
	showErrors("")
	showState()
	if (isDifferent()) checkTimer = setTimeout(check, CHECK_MS)
}

function showState() {
	publishButton.disabled = !isDifferent()
	state.textContent = isDifferent() ? "not published" : "as published"
	clearTimeout(checkTimer)
	if (published) sessionStorage.setItem(storage(), isDifferent() ? draft() : "")
}

function mark(rules) {
	for (const one of marks) one.clear()
	marks = rules.filter(({line}) => line <= editor.lineCount()).map(({line, kind, location, outcome, error, decides, values = []}) => editor.addLineWidget(line - 1,
		h(`.mark.${outcome === "true" ? "good" : "problem"}${decides ? ".decides" : ""}`,
			visible(`${kind} at ${location} is ${error ? `an error: ${error.reason}` : outcome}${decides ? " and decides" : ""}${values.map(({expression, value}) => ` · ${expression} = ${value}`).join("")}`, 1000)), {noHScroll: true}))
	const place = rules.find(({decides}) => decides)
	if (place) editor.scrollIntoView({line: place.line - 1, ch: 0}, 80)
}

async function check() {
	const source = draft()
	const error = await send({dryRun: "true"})
	if (source !== draft()) return false
	showErrors(error)
	state.textContent = `not published: ${error ? "has" : "no"} errors`
	return !error
}

const send = parameters =>
	session.json(PATH, parameters, {asSelf: true, method: "PUT", body: draft()}).then(() => "", error => error.message)

function showErrors(text) {
	const errors = readErrors(text)
	fill(errorList, errors.map(({line, column, message}) => h("li", button([line > 0 && `Line ${line}, column ${column}: `, visible(message, 300)], () => goTo(line, column)))))
	for (const line of badLines) editor.removeLineClass(line, "gutter", "bad")
	badLines = errors.filter(({line}) => line).map(({line}) => editor.addLineClass(line - 1, "gutter", "bad"))
}

function goTo(line, column) {
	if (!line) return
	editor.focus()
	editor.setSelection({line: line - 1, ch: column}, {line: line - 1, ch: column - 1})
}

async function publish() {
	clearTimeout(checkTimer)
	if (!(await check())) return
	const {failed, words} = await playground.runAll()
	const current = await readPublished().catch(() => published)
	if (document.querySelector("dialog")) return // a held key
	const isOld = current !== published
	const body = [isOld && h("p.warning", "Others were published meanwhile: see Versions."), h(failed ? "p.warning" : "p.hint", words), lineDiff(current, draft()), h("p", `They take effect at once. Listens that they forbid end.`)]
	if (!(await dialog({title: "Publish the rules?", confirm: "Publish", danger: isOld || failed > 0, wide: true, body}))) return
	const error = await send({})
	if (error) return showErrors(error)
	published = draft()
	showState()
	toast("Published")
}

function lineDiff(before, after) {
	const lines = Diff.structuredPatch("", "", before, after, "", "", {context: CONTEXT}).hunks.flatMap(hunk => hunk.lines).filter(line => !line.startsWith("\\"))
	const rows = lines.map(line => h("div", {class: KINDS[line[0]]}, h("span.sign", line[0]), h("span.line", visible(line.slice(1), 2000))))
	return h(".diff", {tabIndex: 0, label: "Differences"}, rows.length ? rows : h("p.hint", "They are the same."))
}

async function showVersions() {
	const rules = []
	const difference = h("div")
	const publisherOf = ({uid, key}) => visible((uid ?? "administrator") + (key ? `, key ${key}` : ""))
	const version = choice("Version", [], {autofocus: true, onchange: show})
	const earlier = button("Earlier versions", () => load().catch(failed), ".small")
	function show() {
		fill(difference, lineDiff(rules[version.value].source, draft()))
	}
	async function load() {
		const {rules: found, more} = await session.history("/", {part: "rules", ...(rules.length && {before: rules.at(-1).sequence})})
		version.append(...found.map((one, place) => {
			const number = rules.length + place
			return h("option", {value: number}, `${format.moment(one.time)} by ${publisherOf(one)}${number === 0 ? ", the latest" : ""}`)
		}))
		rules.push(...found)
		earlier.hidden = !more
	}
	await load()
	if (rules.length === 0) return toast("The journal has no published rules.")
	version.value = Math.min(1, rules.length - 1)
	show()
	const body = [h("label", "Published ", version, " ", earlier), h("p.hint", "− was in that version, + is in the editor."), difference]
	if (await dialog({title: "Published rules", confirm: "Put it into the editor", wide: true, body})) editor.setValue(rules[version.value].source)
}

editor.on("change", changed)
editor.on("inputRead", (_, {text}) => /[\w.$]$/.test(text.at(-1)) && editor.showHint())
playground.connect(() => loaded.then(draft), mark)
styles[1].addEventListener("load", () => editor.refresh())
const title = h("h2")
const denials = denialPanel()
export const element = h(".page", styles,
	h(".together", title, state, h("span.grow"), button("Versions", () => showVersions().catch(failed)), publishButton),
	frame, errorList, playground.element, denials.element)

export async function show({parameters: {line, column = 1, index, at = ""}}) {
	title.textContent = `Rules of ${session.namespace}`
	editor.refresh()
	denials.look().catch(() => {})
	if (namespace !== session.namespace) {
		playground.load()
		await (loaded = load())
	}
	history.replaceState(null, "", link("rules"))
	if (line) goTo(Number(line), Number(column))
	if (!index) return
	try {
		editor.setValue(withIndex(draft(), split(at), index))
		toast("The index is in the draft. Publish it.")
	} catch (error) {
		failed(error)
	}
}

export const close = () => clearTimeout(checkTimer)
