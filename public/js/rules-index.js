import {link} from "./session.js"
import {h, iconButton, copy, literal, visible} from "./dom.js"
import {stringify} from "./json.js"
import {join} from "./keys.js"

const TOKENS = /"(?:[^"\\\n]|\\.)*"|\/\/.*|\/\*[^]*?\*\/|[{}[\]:,]|[^\s{}[\]:,"\/]+/g
const nameOf = order => literal(order === "$value" ? ".value" : order)
const fail = () => {
	throw new Error("The draft has errors: add the line by hand.")
}

export const queryLink = (keys, query, namespace) => `${link("query", keys, namespace)}?q=${encodeURIComponent(stringify(query))}`

export function indexFix(keys, order, namespace) {
	const line = `".indexOn": [${nameOf(order)}]`
	return [h("code", visible(line, 2000)), iconButton("copy", "Copy the line", () => copy(line, "Copied")), h("a", {href: `${link("rules", [], namespace)}?${new URLSearchParams({index: order, at: join(keys)})}`}, "Add to the draft")]
}

// A document of rules in which an index is declared for a path; throws where the text is none.
export function withIndex(text, keys, order) {
	const tokens = [...text.matchAll(TOKENS)].filter(([token]) => !token.startsWith("/"))
	const next = () => tokens.shift() ?? fail()
	// {start, end} of a value, with its `members` or `items`.
	function read(token = next()) {
		const kind = token[0], start = token.index
		const node = {kind, start, end: start + kind.length, members: new Map(), items: []}
		if (kind === "{") for (let name = next(); name[0] !== "}"; name = next()) {
			if (name[0] !== ",") node.members.set(JSON.parse(name[0]), (next()[0] === ":" && read()) || fail())
		} else if (kind === "[") for (let item = next(); item[0] !== "]"; item = next()) {
			if (item[0] !== ",") node.items.push(item[0])
		} else node.items.push(kind)
		return node
	}
	let node = read().members.get("rules")
	const rest = [...keys]
	for (let child = node; child && rest.length;) {
		child = node.members.get(rest[0]) ?? [...node.members].find(([name]) => name.startsWith("$"))?.[1]
		if (child) [node] = [child, rest.shift()]
	}
	if (node?.kind !== "{") fail()
	const index = rest.length ? undefined : node.members.get(".indexOn")
	const name = nameOf(order)
	if (index?.items.includes(name)) return text
	const insert = (words, {start, end} = node) => text.slice(0, start + 1) + words + text.slice(end)
	if (index) return index.kind === "[" ? insert(name + (index.items.length ? ", " : ""), index) : text.slice(0, index.start) + `[${index.items}, ${name}]` + text.slice(index.end)
	const indent = /^\s*/.exec(text.slice(text.lastIndexOf("\n", node.start) + 1))[0]
	const line = rest.reduceRight((inner, key) => `${JSON.stringify(key)}: { ${inner} }`, `".indexOn": [${name}]`)
	return insert(`\n${indent}  ${line}${node.members.size ? "," : `\n${indent}`}`)
}
