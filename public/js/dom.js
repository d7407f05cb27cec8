// Elements: whatever the tree holds becomes a text node or an attribute, never markup.

// An element: `h("div.class", {property, attribute, onevent}, children)`; `label` is its name for screen readers.
export function h(selector, properties, ...children) {
	if (properties?.constructor !== Object) return h(selector, {}, properties, ...children)
	const [tag, ...classes] = selector.split(".")
	const element = document.createElement(tag)
	element.classList.add(...classes)
	if (tag === "button") element.type = "button"
	if (tag === "input") element.autocomplete = "off"
	for (const [name, value] of Object.entries(properties)) {
		if ((value ?? false) === false) continue
		if (name === "label") element.setAttribute("aria-label", value)
		else if (name === "onsubmit") element.addEventListener("submit", event => value(event.preventDefault()))
		else if (name.startsWith("on")) element.addEventListener(name.slice(2), value)
		else if (name in element) element[name] = value
		else element.setAttribute(name, value === true ? "" : value)
	}
	element.append(...children.flat(Infinity).filter(child => (child ?? false) !== false))
	return element
}

export function svg(tag, attributes, ...children) {
	const element = document.createElementNS("http://www.w3.org/2000/svg", tag)
	for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value)
	element.append(...children)
	return element
}

// Their shapes are in the page: those of a file are asked for again, and the server may be gone.
const icons = new XMLHttpRequest()
icons.onload = () => document.body.append(icons.responseXML.documentElement)
icons.open("GET", "/icons.svg")
icons.send()
export const icon = name => svg("svg", {viewBox: "0 0 16 16", width: 16, height: 16, "aria-hidden": true, class: "icon"}, svg("use", {href: "#" + name}))

export const button = (label, onclick, kind = "", properties = {}) => h(`button${kind}`, {onclick, ...properties}, label)

export const iconButton = (name, label, onclick, properties = {}) =>
	h("button.icon-button", {title: label, label, onclick, ...properties}, icon(name))

// Control characters, and those that change the direction of text or have no shape; but tabs, and the choice of a coloured shape.
const INVISIBLE = /(?![\t\ufe0f])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{DI}]/gu

export function visible(text, limit = 400) {
	const cut = text.length > limit ? text.slice(0, limit) + "…" : text
	return cut.replace(INVISIBLE, found => `⟨${found.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`)
}

export const visibleLines = (text, limit, lineLimit = 2000) => text.slice(0, limit).split("\n").map(line => visible(line, lineLimit)).join("\n")

export function toast(text, kind = "info", action) {
	const area = document.getElementById("toasts")
	const close = () => item.remove()
	const item = h(`div.toast.${kind}`, h("span", text), action,
		iconButton("close", "Close", close))
	area.append(item)
	while (area.childElementCount > 4) area.firstElementChild.remove()
	// One that is pointed at, or has the focus, stays.
	setTimeout(() => item.matches(":hover, :focus-within") || close(), kind === "error" ? 12000 : 6000)
}

// Opens a dialog; resolves with whether it was confirmed. A message, or an error, of `check()` keeps it open. One that `asks` nothing is only closed.
export function dialog({title, body, confirm = "Close", danger, check = () => "", wide, asks = true}) {
	return new Promise(resolve => {
		const problem = h("p.problem", {role: "alert"})
		const ok = h(`button.primary${danger ? ".danger" : ""}`, {type: "submit"}, confirm)
		const close = () => element.close()
		const cancel = button("Cancel", close)
		let isConfirmed = false
		const onsubmit = async () => {
			if (ok.disabled) return
			ok.disabled = true
			problem.textContent = await Promise.try(check).catch(error => error.message) || ""
			ok.disabled = false
			isConfirmed = problem.textContent === ""
			if (isConfirmed) close()
		}
		const element = h(`dialog${wide ? ".wide" : ""}`, {"aria-labelledby": "dialog-title", onclose: () => { element.remove(); resolve(isConfirmed) }},
			h("form", {method: "dialog", onsubmit}, h("header", h("h2", {id: "dialog-title"}, title), iconButton("close", "Cancel", close)),
				h("div.dialog-body", body, problem), h("footer", asks && cancel, ok)))
		document.body.append(element)
		element.showModal();
		(element.querySelector("[autofocus]") ?? (danger ? cancel : ok)).focus()
	})
}

// A menu of [label, action, key, class], or null for a line, at an element or a point.
export function menu(anchor, items) {
	const close = () => list.hidePopover() // the focus goes back
	const entry = ([label, run, key, name]) =>
		button([h("span", label), key && h("kbd", key)], () => { close(); run() }, "", {role: "menuitem", tabIndex: -1, class: name})
	const onkeydown = event => {
		const place = entries.indexOf(document.activeElement)
		const next = {ArrowDown: place + 1, ArrowUp: place - 1, Home: 0, End: entries.length - 1}[event.key]
		if (next !== undefined) entries.at(next % entries.length).focus()
		else if (event.key === "Tab") close()
		else return
		event.preventDefault()
	}
	const list = h("div.menu", {popover: "auto", role: "menu", label: "Actions", onkeydown, ontoggle: ({newState}) => newState === "closed" && list.remove()},
		items.map(item => (item ? entry(item) : h("hr"))))
	const entries = [...list.querySelectorAll("button")]
	document.body.append(list)
	list.showPopover()
	const {left, bottom, top} = anchor instanceof Element ? anchor.getBoundingClientRect() : new DOMRect(anchor.x, anchor.y)
	const {width, height} = list.getBoundingClientRect()
	list.style.left = `${Math.max(4, Math.min(left, innerWidth - width - 4))}px`
	list.style.top = `${bottom + height > innerHeight - 4 ? Math.max(4, top - height) : bottom + 2}px`
	entries[0].focus()
}

export function inNextFrame(run) {
	let frame
	return () => (frame ??= requestAnimationFrame(() => {
		frame = undefined
		run()
	}))
}

export async function copy(text, what) {
	try {
		await navigator.clipboard.writeText(text)
	} catch {
		const area = h("textarea.offscreen", {value: text})
		document.body.append(area)
		area.select()
		document.execCommand("copy")
		area.remove()
	}
	toast(what)
}

export function save(name, content) {
	const url = URL.createObjectURL(new Blob([content]))
	h("a", {href: url, download: name}).click()
	setTimeout(() => URL.revokeObjectURL(url), 60000)
}

export const formatCount = count => count.toLocaleString("fr")

export function formatBytes(bytes) {
	const power = Math.min(3, Math.floor(Math.log10(bytes) / 3))
	return power > 0 ? `${(bytes / 1000 ** power).toFixed(1)} ${" kMG"[power]}B` : `${Math.round(bytes)} B`
}

export function formatMoment(milliseconds) {
	const date = new Date(milliseconds)
	const day = date.toDateString() === new Date().toDateString() ? "" : `${date.toLocaleDateString("en-GB")} `
	return `${day}${date.toLocaleTimeString("en-GB")}.${date.toISOString().slice(20, 23)}`
}

export function formatSpan(seconds) {
	const [unit, size] = [["d", 86400], ["h", 3600], ["min", 60]].find(([, size]) => seconds >= size) ?? ["s", 1]
	return `${Math.floor(seconds / size)}\u202f${unit}`
}

export function choice(label, options, {value, ...properties} = {}) {
	const select = h("select", {label, ...properties}, options.map(option => Array.isArray(option) ? h("option", {value: option[0]}, option[1]) : h("option", option)))
	if (value !== undefined) select.value = value
	return select
}

export const table = (heads, rows, empty) => rows.length === 0 ? h("p.hint", empty) : h("div.scroll", h("table",
	h("thead", h("tr", heads.map(name => h("th", {scope: "col"}, name)))),
	h("tbody", rows.map(cells => h("tr", cells.map(cell => h("td", cell)))))))

// Shows a table in a place. A row that is shown already stays the same element, with the focus.
export function showTable(place, heads, rows, empty) {
	const found = table(heads, rows, empty)
	const [shown, wanted] = [place, found].map(element => element.querySelector("tbody"))
	if (!shown || !wanted) return place.textContent === found.textContent || place.replaceChildren(found)
	const old = new Map([...shown.rows].map(row => [row.textContent, row]))
	const next = [...wanted.rows].map(row => {
		const same = old.get(row.textContent)
		old.delete(row.textContent)
		return same ?? row
	})
	for (const row of [...shown.rows]) if (!next.includes(row)) row.remove()
	next.forEach((row, index) => row === shown.rows[index] || shown.insertBefore(row, shown.rows[index] ?? null))
}

export const panel = (title, content, beside) => h("section.panel", h("div.together", h("h2.grow", title), beside), content)

// Light or dark: as the system has it, or as it was chosen.
const THEME_KEY = "pando-theme"
const {dataset} = document.documentElement
dataset.theme = localStorage.getItem(THEME_KEY) ?? ""

export function switchTheme() {
	const isDark = dataset.theme ? dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches
	localStorage.setItem(THEME_KEY, (dataset.theme = isDark ? "light" : "dark"))
}
