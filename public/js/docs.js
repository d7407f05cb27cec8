import {h, fill} from "./dom.js"
import {readTable} from "./json.js"
import {render} from "./markdown.js"

const PAGES = await readTable("docs")
const nav = h("nav", {label: "Documents"})
const article = h("article", {id: "main", tabIndex: -1})
document.getElementById("app").append(h(".docs", nav, h("main", article)))
let shown

function resolve(page, address) {
	const {origin, pathname, hash} = new URL(address, `${location.origin}/docs/${page}`)
	if (origin !== location.origin) return /^https?:/.test(address) ? address : null
	// The code is not served.
	if (address.split("../").length > page.split("/").length || !pathname.startsWith("/docs/")) return null
	return pathname.endsWith(".md") ? `#${pathname.slice(5)}${hash}` : pathname
}

async function show() {
	const [page, anchor] = location.hash.replace(/^#\/?/, "").split("#")
	const name = page || "index.md"
	if (name !== shown) {
		const response = /^[\w./-]+\.md$/.test(name) ? await fetch(`/docs/${name}`, {credentials: "omit"}) : null
		const elements = response?.ok ? render(await response.text(), address => resolve(name, address)) : h("h1", "There is no such document")
		shown = name
		fill(article, elements)
		document.title = `${article.querySelector("h1")?.textContent ?? "Documents"} · Pando`
		fill(nav, h("a", {href: "/"}, "← Console"), Object.entries(PAGES).map(([page, label]) => {
			const isShown = `${page}.md` === name
			return [h("a", {href: `#/${page}.md`, "aria-current": isShown && "page"}, label),
				isShown && [...article.querySelectorAll("h2")].map(heading => h("a.inner", {href: `#/${name}#${heading.id}`}, heading.textContent))]
		}))
		scrollTo(0, 0)
	}
	if (anchor) document.getElementById(decodeURIComponent(anchor))?.scrollIntoView()
}

addEventListener("hashchange", show)
show()
