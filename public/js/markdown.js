// Markdown as elements, from the tokens of marked (vendor/marked.js). HTML in a document is text.

import "../vendor/marked.js"
import {h} from "./dom.js"

const ENTITIES = {amp: "&", lt: "<", gt: ">", quot: '"', "#39": "'"}
const plain = text => text.replace(/&(amp|lt|gt|quot|#39);/g, (_, name) => ENTITIES[name])

const slug = text => text.toLowerCase().replace(/[^\p{L}\p{N}\s_-]/gu, "").trim().replace(/\s/g, "-")

export function render(source, resolve) {
	const used = new Map()
	const all = tokens => tokens.map(one)
	const inside = (tag, token) => h(tag, all(token.tokens))
	const one = token => {
		const {type, text, raw, tokens} = token
		const target = token.href === undefined ? null : resolve(plain(token.href))
		switch (type) {
			case "heading": {
				const element = inside(`h${token.depth}`, token)
				const name = slug(element.textContent)
				const count = used.get(name) ?? 0
				used.set(name, count + 1)
				return Object.assign(element, {id: count ? `${name}-${count}` : name})
			}
			case "code": return h("pre", {tabIndex: 0}, h("code", text))
			case "hr": case "br": return h(type)
			case "list": return h(token.ordered ? "ol" : "ul", {}, token.items.map(item => inside("li", item)))
			case "table": {
				const row = (cells, tag) => h("tr", cells.map(cell => inside(tag, cell)))
				return h("table", h("thead", row(token.header, "th")), h("tbody", token.rows.map(cells => row(cells, "td"))))
			}
			case "codespan": return h("code", plain(text))
			case "link": return h(target ? "a" : "span", {href: target}, all(tokens))
			case "image": return target ? h("img", {src: target, alt: plain(text), loading: "lazy"}) : plain(text)
			case "text": case "escape": return tokens ? all(tokens) : plain(text)
			default: return tokens ? inside(type.replace("paragraph", "p"), token) : raw
		}
	}
	return all(marked.lexer(source)).flat(Infinity).filter(Boolean)
}
