import {session} from "./session.js"
import {table, iconButton, copy, literal, visible} from "./dom.js"
import {encodePath} from "./keys.js"
import {stringify, readTable} from "./json.js"

// By their names: the words of orders, bounds and limits; the SDKs' methods of orders; how bounds are sent (realtime §7.1).
export const {orders: ORDERS, bounds: BOUNDS, limits: LIMITS, sides: SIDES} = await readTable("query")
const NAMES = [...BOUNDS, ...LIMITS].map(([name]) => name)

// The query object of the realtime protocol (§7.1).
export function wireQuery(query) {
	const wire = {}
	if (query.orderBy !== "$priority") wire.i = query.orderBy.replace("$", ".")
	if (query.equalTo !== undefined) Object.assign(wire, {sp: query.equalTo, sin: true, ep: query.equalTo, ein: true})
	for (const [name, side, isInclusive, furthest] of SIDES) {
		if (query[name] === undefined) continue
		Object.assign(wire, {[`${side}p`]: query[name], [`${side}in`]: isInclusive})
		if (furthest && wire.i !== ".key") wire[`${side}n`] = furthest
	}
	const limit = query.limitToFirst ?? query.limitToLast
	return limit ? {...wire, l: limit, vf: query.limitToFirst ? "l" : "r"} : wire
}

// By name: how a line begins and ends, its methods where they have other names, and the values that it writes unlike JSON.
const SDKS = await readTable("sdks")

function inCode(value, {words, escapes = [], wholeNumberEnd = ""}) {
	const text = literal(value)
	if (typeof value === "string") return escapes.reduce((text, [found, by]) => text.replace(new RegExp(found, "g"), by), text)
	return words[text] ?? (/^-?\d+$/.test(text) ? text + wholeNumberEnd : text)
}

export function codeTable(keys, query = {}) {
	const path = keys.join("/") || "/"
	const {orderBy} = query
	const [, , method] = ORDERS.find(([name]) => name === orderBy) ?? []
	const given = ["orderBy", ...NAMES].filter(name => name in query).map(name => [name, query[name]])
	const methods = orderBy ? [method ? [method] : ["orderByChild", orderBy], ...given.slice(1)] : []
	const line = sdk => {
		const lacking = methods.find(([name]) => sdk.lacks?.includes(name))
		if (lacking) return `(this SDK has no ${lacking[0]})`
		const {whole, join = "."} = sdk
		const calls = methods.map(([name, value]) => `${join}${sdk.calls?.[name] ?? `${name}(`}${value === undefined ? "" : name.startsWith("limit") ? value : inCode(value, sdk)})`)
		const code = calls[0] || !whole ? sdk.begin + calls.join("") + sdk.end : whole
		return code.replace("PATH", () => inCode(path, sdk))
	}
	const url = `${location.origin}/${encodePath(keys)}.json?${new URLSearchParams([...given.map(([name, value]) => [name, stringify(value)]), ["ns", session.namespace]])}`
	const lines = [
		["REST", url],
		["curl", `curl ${session.isAdmin ? '-H "Authorization: Bearer $PANDO_TOKEN" ' : ""}'${url.replaceAll("'", "'\\''")}'`],
		...Object.entries(SDKS).map(([name, sdk]) => [name, line(sdk)]),
	]
	return table(["", "in", "as"], lines.map(([name, text]) => [iconButton("copy", `Copy ${name}`, () => copy(text, `${name} copied`)), name, visible(text, 4000)]))
}
