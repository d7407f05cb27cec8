import {session, link, restPath} from "./session.js"
import {h, fill, choice, counted, inNextFrame, panel, table, visible, format} from "./dom.js"
import {split, join, compareKeys, compareValues} from "./keys.js"
import {stringify, parse, kindOf, isObject, unwrap, own} from "./json.js"
import {codeTable, wireQuery, ORDERS, BOUNDS, LIMITS} from "./snippets.js"
import {indexFix, queryLink} from "./rules-index.js"
import {explain} from "./denials.js"
import {valueField} from "./edit.js"

const SHOWN_ROWS = 500
const COLUMN_LIMIT = 8

const path = h("input.path-input", {label: "Path"})
const order = choice("Order by", ORDERS)
const child = h("input.path-input", {placeholder: "child, or path/below", label: "Child to order by"})
const bound = (label, options) => ({kind: choice(label, options), field: valueField("", {types: [["bare", "value"], "string"], hasPriority: false})})
const bounds = [bound("First bound", BOUNDS), bound("Second bound", [["none", "nothing else"], ...BOUNDS.slice(4)])]
const side = choice("Limit to", LIMITS)
const limit = h("input", {type: "number", min: 1, max: 2147483647, value: 50, label: "Limit"})
const problem = h("p.problem", {role: "alert"})
const summary = h("span.hint", {role: "status"})
const [result, cost, code] = [h("div"), h("div"), h("div")]
const [where, and] = bounds.map(({kind, field}) => [kind, field.elements])
const rows = {
	"Children of": path, "Order by": [order, child], Where: where, and,
	"Limit to": [side, limit, h("button.primary", {type: "submit"}, "Run"), summary],
}
const form = h("form.panel", {onsubmit: run, onchange: adapt}, h("h2", "Query"),
	h(".query-form", Object.entries(rows).map(([label, content]) => [h("span", label), h("span.together", content)])), problem)
const latestQueries = new Map()
let stop, latest, took, isUnindexed
export const element = h(".page", form, cost, panel("Result", result), panel("Code", code))
export const close = () => stop?.()

export function show({keys, parameters}) {
	clear()
	path.value = join(keys)
	const text = parameters.q ?? latestQueries.get(link("query", keys))
	try {
		showQuery(parse(text ?? "{}"))
	} catch {
		problem.textContent = "The address has no valid query."
	}
	adapt()
	fill(code, codeTable(keys))
	if (text && !problem.textContent) run()
}

function clear() {
	stop?.()
	stop = latest = took = isUnindexed = undefined
	summary.textContent = problem.textContent = ""
	fill(cost)
	fill(result, h("p.hint", "Run reads what the query selects."))
}

function adapt() {
	const [first, second] = bounds
	child.hidden = order.value !== "child"
	second.kind.disabled = /^(none|equalTo|end.*)$/.test(first.kind.value)
	if (second.kind.disabled) second.kind.value = "none"
	for (const {kind, field} of bounds) {
		for (const element of field.elements) element.hidden = kind.value === "none"
		if (order.value === "$key") field.type.hidden = true
	}
}

function showQuery(query) {
	const {orderBy = "$key"} = query
	order.value = orderBy.startsWith("$") ? orderBy : "child"
	child.value = order.value === "child" ? orderBy : ""
	const names = BOUNDS.map(([name]) => name).filter(name => Object.hasOwn(query, name))
	bounds.forEach(({kind, field}, number) => {
		const name = names[number]
		kind.value = name ?? "none"
		field.type.value = typeof query[name] === "string" ? "string" : "bare"
		field.text.value = name ? query[name] : ""
		if (name && isObject(query[name])) throw new Error()
	})
	for (const [name] of LIMITS) if (query[name]) [side.value, limit.value] = [name, query[name]]
}

function read() {
	const query = {orderBy: order.value === "child" ? split(child.value).join("/") : order.value}
	if (query.orderBy === "") throw new Error("Say which child the order is by.")
	for (const {kind, field} of bounds) {
		if (kind.value === "none") continue
		const bound = (query[kind.value] = order.value === "$key" ? field.text.value : field.read())
		if (isObject(bound)) throw new Error("A bound can't be an object.")
	}
	const count = Number(limit.value)
	if (!Number.isInteger(count) || count < 0) throw new Error("A limit is a whole number.")
	return count ? {...query, [side.value]: count} : query
}

function run() {
	clear()
	let query
	try {
		query = read()
	} catch (error) {
		return void (problem.textContent = error.message)
	}
	const keys = split(path.value)
	history.replaceState(null, "", queryLink(keys, query))
	latestQueries.set(link("query", keys), stringify(query))
	const began = performance.now()
	summary.textContent = "…"
	stop = session.database.listen(join(keys), wireQuery(query), value => {
		took ??= performance.now() - began
		latest = {value, keys, query}
		drawSoon()
	}, error => {
		summary.textContent = ""
		problem.textContent = error.message
		fill(result)
		if (error.code === "permission_denied") explain(error, "Query", {method: "read", path: join(keys), query})
	})
	const current = stop
	session.json(restPath(join(keys)), {orderBy: JSON.stringify(query.orderBy), limitToFirst: 1}).catch(error => {
		if (stop !== current || !error.message.startsWith("Index not defined")) return
		isUnindexed = true
		drawSoon()
	})
	fill(code, codeTable(keys, query))
}

const drawSoon = inNextFrame(() => latest && draw(latest))

function draw({value, keys, query: {orderBy}}) {
	const data = isObject(value) ? value : {}
	const isParent = node => kindOf(node) === "object"
	const childrenOf = node => (isParent(node) ? node : {})
	const orderedBy = key => orderBy === "$key" ? 0 : orderBy === "$priority" ? unwrap(data[key]).priority ?? null
		: unwrap((orderBy === "$value" ? [] : orderBy.split("/")).reduce((node, name) => own(childrenOf(node), name) ?? null, data[key])).value
	const found = Object.keys(data).filter(key => !key.startsWith(".")).map(key => ({key, by: orderedBy(key)}))
		.sort((a, b) => compareValues(a.by, b.by) || compareKeys(a.key, b.key)).map(({key}) => key)
	const index = isUnindexed ? "no index is declared" : orderBy === "$key" ? "in key order" : "index"
	summary.textContent = `${counted(found.length, "child", "children")}, first result in ${took.toFixed(1)} ms, live · ${index}`
	fill(cost, isUnindexed && h(".banner", {role: "status"},
		`No index: each run may look at every child, and REST refuses it. Add to the rules at ${visible(join(keys))}:`, h("p", indexFix(keys, orderBy))))
	const columns = [...new Set(found.slice(0, 50).flatMap(key => Object.keys(childrenOf(data[key]))))].filter(name => !name.startsWith(".")).slice(0, COLUMN_LIMIT)
	const hasValues = found.some(key => !isParent(data[key]))
	const cell = node => node === undefined ? "" : h("span", {class: kindOf(node)}, h("span.value", visible(stringify(unwrap(node).value))))
	const body = found.slice(0, SHOWN_ROWS).map(key => [h("a", {href: link("data", [...keys, key])}, visible(key)),
		...columns.map(name => cell(own(childrenOf(data[key]), name))), ...(hasValues ? [isParent(data[key]) ? "" : cell(data[key])] : [])])
	fill(result, table(["key", ...columns.map(name => visible(name)), ...(hasValues ? ["value"] : [])], body, "No children match."),
		found.length > SHOWN_ROWS && h("p.hint", `The first ${SHOWN_ROWS} of ${format.count(found.length)} are shown.`))
}
