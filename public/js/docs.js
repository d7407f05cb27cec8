import {h} from "./dom.js"
import {readTable} from "./json.js"
import {render} from "./markdown.js"

const PAGES = await readTable("docs")
const nav = h("nav", {label: "Documents"})
const article = h("article", {id: "main", tabIndex: -1})
document.getElementById("app").append(h("div.docs", nav, article))
let shown = null

function resolve(page, address) {
	if (/^https?:/.test(address)) return address
	if (/^[a-z][a-z0-9+.-]*:/i.test(address) || address === "") return null
	if (address.startsWith("#")) return `#/${page}${address}`
	const url = new URL(address, `${location.origin}/docs/${page}`)
	// The code is not served.
	if (address.split("../").length > page.split("/").length || !url.pathname.startsWith("/docs/")) return null
	return url.pathname.endsWith(".md") ? `#${url.pathname.slice(5)}${url.hash}` : url.pathname
}

async function show() {
	const [page, anchor] = location.hash.replace(/^#\/?/, "").split("#")
	const name = page || "index.md"
	if (name !== shown) {
		const response = /^[\w./-]+\.md$/.test(name) ? await fetch(`/docs/${name}`, {credentials: "omit"}) : null
		const elements = response?.ok ? render(await response.text(), address => resolve(name, address)) : [h("h1", "There is no such document")]
		shown = name
		article.replaceChildren(...elements)
		document.title = `${article.querySelector("h1")?.textContent ?? "Documents"} · Pando`
		nav.replaceChildren(h("a", {href: "/"}, "← Console"), ...Object.entries(PAGES).flatMap(([page, label]) => [
			h("a", {href: `#/${page}.md`, "aria-current": `${page}.md` === name && "page"}, label),
			...(`${page}.md` === name ? [...article.querySelectorAll("h2")].map(heading => h("a.inner", {href: `#/${name}#${heading.id}`}, heading.textContent)) : []),
		]))
		scrollTo(0, 0)
	}
	if (anchor) document.getElementById(decodeURIComponent(anchor))?.scrollIntoView()
}

addEventListener("hashchange", show)
show()
