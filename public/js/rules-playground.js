import {session} from "./session.js"
import {h, fill, button, choice, panel, table, visible, fail} from "./dom.js"
import {split, join} from "./keys.js"
import {parse, stringify} from "./json.js"
import {causes, userField} from "./denials.js"

const CASE_LIMIT = 500
const PLACEHOLDERS = {write: "What is written, as JSON", read: 'No query, or {"orderBy": "$key", "limitToFirst": 10}'}

const isCase = item => /^(read|write)$/.test(item?.method) && typeof item.path === "string" && typeof item.allowed === "boolean"
const userOf = ({auth}) => auth === "admin" ? "administrator" : auth ? visible(auth.uid ?? "") : "not signed in"

const user = userField([["anonymous", "not signed in"], ["user", "a user"], ["self", "administrator"]])
const method = choice("Operation", ["read", "write"], {onchange: adapt})
const path = h("input.path-input.grow", {label: "Path", value: "/"})
const value = h("textarea.code", {rows: 2, label: "Value or query (JSON)"})
const result = h("p", {role: "status"})
const list = h("div")
let cases = []
let source, mark
export const connect = (draft, marker) => ([source, mark] = [draft, marker])
const storage = () => `pando-rule-cases ${session.namespace}`

function adapt() {
	value.placeholder = PLACEHOLDERS[method.value]
}

function read() {
	const {kind, auth = kind === "self" ? "admin" : null} = user.read()
	const content = value.value.trim()
	return {method: method.value, path: join(split(path.value)), auth, ...(method.value === "write" ? {value: parse(content || "null")} : content && {query: parse(content)})}
}

function show({auth, ...item}) {
	method.value = item.method
	path.value = item.path
	user.show(auth === "admin" ? {kind: "self"} : {kind: auth ? "user" : "anonymous", auth})
	value.value = item.method === "write" ? stringify(item.value) : item.query ? stringify(item.query) : ""
	adapt()
	ask()
}

const evaluate = async ({allowed, outcome, ...item}) => session.evaluate({...item, rules: await source()})

async function ask() {
	let answer
	try {
		answer = await evaluate(read())
		result.textContent = `${answer.allowed ? "Allowed" : "Denied"}: ${(await causes)[answer.cause]}.`
	} catch (error) {
		result.textContent = error.message
	}
	result.className = answer?.allowed ? "good" : "problem"
	mark(answer?.rules ?? [])
	return answer
}

async function keep() {
	const answer = await ask()
	if (!answer) return
	if (cases.length >= CASE_LIMIT) return fail(`There are ${CASE_LIMIT} cases already.`)
	cases.push({...read(), allowed: answer.allowed, outcome: "holds"})
	draw()
}

export async function runAll() {
	for (const item of [...cases]) {
		item.outcome = await evaluate(item).then(({allowed}) => allowed === item.allowed ? "holds" : allowed ? "is allowed" : "is denied", error => error.message)
	}
	draw()
	const failed = cases.filter(({outcome}) => outcome !== "holds").length
	return {failed, words: failed ? `${failed} of ${cases.length} cases do not hold.` : cases.length ? `All ${cases.length} cases hold.` : "No cases."}
}

export function changed() {
	for (const item of cases) delete item.outcome
	draw()
}

function draw() {
	try {
		sessionStorage.setItem(storage(), stringify(cases.map(({outcome, ...item}) => item)))
	} catch { /* more than the browser keeps */ }
	fill(list, table(["user", "does", "must be", "and it", ""], cases.map(item => {
		const does = `${item.method} ${visible(item.path)}`
		const small = (label, run) => button(label, () => { run(); draw() }, ".small", {label: `${label}: ${userOf(item)}, ${does}`})
		return [userOf(item), does, small(item.allowed ? "allowed" : "denied", () => { item.allowed = !item.allowed; delete item.outcome }),
			h("span", {class: item.outcome === "holds" ? "good" : "problem"}, visible(item.outcome ?? "", 200)),
			[small("Show", () => show(item)), " ", small("Remove", () => cases.splice(cases.indexOf(item), 1))]]
	}), "A question kept as a case is run before you publish."))
}

export function load() {
	try {
		cases = parse(sessionStorage.getItem(storage()) ?? "[]").filter(isCase)
	} catch {
		cases = []
	}
	draw()
}

adapt()
export const element = h(".columns",
	h("form.panel", {onsubmit: ask}, h("h2", "May this user do this here?"),
		user.element, h(".together", method, path), value,
		h(".together", h("button", {type: "submit"}, "Try"), button("Keep as a case", keep)), result),
	panel("Cases", list, button("Run all", runAll)))
