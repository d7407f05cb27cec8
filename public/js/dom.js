// Elements: whatever the tree holds becomes a text node or an attribute, never markup.

import {stringify} from "./json.js"

// An element: `h("tag.class", {property, attribute, onevent}, children)`, a div without a tag; `label` is its name for screen readers.
export function h(selector, properties, ...children) {
	if (properties?.constructor !== Object) return h(selector, {}, properties, ...children)
	const [tag, ...classes] = selector.split(".")
	const element = document.createElement(tag || "div")
	element.classList.add(...classes)
	if (tag === "button") element.type = "button"
	if (tag === "input") element.autocomplete = "off"
	for (const [name, value] of Object.entries(properties)) {
		if ((value ?? false) === false) continue
		if (name === "label") element.ariaLabel = value
		else if (name === "onsubmit") element.addEventListener("submit", event => value(event.preventDefault()))
		else if (name.startsWith("on")) element.addEventListener(name.slice(2), value)
		else if (name in element) element[name] = value
		else element.setAttribute(name, value === true ? "" : value)
	}
	fill(element, children)
	return element
}

// Replaces what is in an element; null and false are nothing.
export const fill = (element, ...children) => element.replaceChildren(...children.flat(Infinity).filter(child => (child ?? false) !== false))

export function svg(tag, attributes, ...children) {
	const element = document.createElementNS("http://www.w3.org/2000/svg", tag)
	for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value)
	element.append(...children)
	return element
}

// In the page: a file would be asked for again, and the server may be gone.
const icons = new XMLHttpRequest()
icons.onload = () => document.body.append(icons.responseXML.documentElement)
icons.open("GET", "/icons.svg")
icons.send()
export const icon = name => svg("svg", {width: 16, height: 16, "aria-hidden": true, class: "icon"}, svg("use", {href: "#" + name}))

export const button = (label, onclick, kind = "", properties) => h(`button${kind}`, {onclick, ...properties}, label)

export const iconButton = (name, label, onclick, properties) =>
	button(icon(name), onclick, ".icon-button", {title: label, label, ...properties})

// Control characters, and those that change direction or have no shape; but tabs and the choice of a coloured shape.
const INVISIBLE = /(?![\t\ufe0f])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{DI}]/gu

export function visible(text, limit = 120) {
	const cut = text.length > limit ? text.slice(0, limit) + "…" : text
	return cut.replace(INVISIBLE, found => `⟨${found.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`)
}

// JSON for code; such characters as escapes that every language knows.
export const literal = value => stringify(value).replace(INVISIBLE, found => (found.length > 1 ? found : `\\u${found.charCodeAt().toString(16).padStart(4, "0")}`))

export const visibleLines = (text, limit) => text.slice(0, limit).split("\n").map(line => visible(line, 2000)).join("\n")

const toasts = document.getElementById("toasts")

export function toast(text, kind = "info", action) {
	const close = () => item.remove()
	const item = h(`.toast.${kind}`, h("span.grow", text), action, iconButton("close", "Close", close))
	toasts.append(item)
	while (toasts.childElementCount > 4) toasts.firstElementChild.remove()
	// One that is pointed at, or has the focus, stays.
	setTimeout(() => item.matches(":hover, :focus-within") || close(), kind === "error" ? 12000 : 6000)
}

export const fail = text => toast(text, "error")
export const failed = error => fail(error.message)

// {problem, submit, onsubmit} of a form. Submitting disables the button and awaits `run()`. A text, or an error, is shown and keeps the form open;
// `false` only keeps it open. Otherwise `done()`.
export function formParts(label, run, done, kind = ".primary") {
	const problem = h("p.problem", {role: "alert"})
	const submit = h(`button${kind}`, {type: "submit"}, label)
	async function onsubmit() {
		if (submit.disabled) return
		const focused = document.activeElement
		submit.disabled = true
		const answer = await Promise.try(run).catch(error => error.message)
		submit.disabled = false
		problem.textContent = typeof answer === "string" ? answer : ""
		if (answer === false || problem.textContent) focused.focus()
		else done()
	}
	return {problem, submit, onsubmit}
}

// Behind a modal dialog nothing can be clicked: messages move into the topmost, which is the first.
const placeToasts = () => (document.querySelector("dialog") ?? document.body).append(toasts)

// Opens a dialog; resolves with whether it was confirmed. `check()` is as `run()` of a form. Without `confirm` it is only closed.
export function dialog({title, body, confirm, danger, check = () => "", wide}) {
	return new Promise(resolve => {
		const close = () => element.close()
		const cancel = button("Cancel", close)
		const {problem, submit, onsubmit} = formParts(confirm ?? "Close", check, () => element.close("confirmed"), danger ? ".primary.danger" : ".primary")
		const onclose = () => {
			element.remove()
			placeToasts()
			resolve(element.returnValue === "confirmed")
		}
		const element = h(`dialog${wide ? ".wide" : ""}`, {label: title, onclose},
			h("form", {method: "dialog", onsubmit}, h("header", {role: "none"}, h("h2.grow", title), iconButton("close", "Cancel", close)),
				h(".dialog-body", body, problem), h("footer", {role: "none"}, confirm && cancel, submit)))
		document.body.prepend(element)
		element.showModal()
		placeToasts();
		(element.querySelector("[autofocus]") ?? (danger ? cancel : submit)).focus()
	})
}

// A menu of [label, action, key, class], or null for a line, at an element or a point. Actions are called with `subject`.
export function menu(anchor, items, subject) {
	const close = () => list.hidePopover() // the focus goes back
	const entry = ([label, run, key, name]) =>
		button([h("span", label), key && h("kbd", key)], () => { close(); run(subject) }, "", {role: "menuitem", tabIndex: -1, class: name})
	const onkeydown = event => {
		const place = entries.indexOf(document.activeElement)
		const next = {ArrowDown: place + 1, ArrowUp: place - 1, Home: 0, End: entries.length - 1}[event.key]
		if (next !== undefined) entries.at(next % entries.length).focus()
		else if (event.key === "Tab") close()
		else return
		event.preventDefault()
	}
	const list = h(".menu", {popover: "auto", role: "menu", label: "Actions", onkeydown, ontoggle: ({newState}) => newState === "closed" && list.remove()},
		items.map(item => (item ? entry(item) : h("hr"))))
	const entries = [...list.querySelectorAll("button")]
	document.body.append(list)
	list.showPopover()
	const {left, bottom, top} = anchor.getBoundingClientRect?.() ?? new DOMRect(anchor.x, anchor.y)
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

export const format = {
	count: count => Math.round(count).toLocaleString("fr"),
	bytes(bytes) {
		const power = Math.min(3, Math.floor(Math.log10(bytes) / 3))
		return power > 0 ? `${(bytes / 1000 ** power).toFixed(1)} ${" kMG"[power]}B` : `${Math.round(bytes)} B`
	},
	moment(milliseconds) {
		const date = new Date(milliseconds)
		const day = date.toDateString() === new Date().toDateString() ? "" : `${date.toLocaleDateString("en-GB")} `
		return `${day}${date.toLocaleTimeString("en-GB")}.${date.toISOString().slice(20, 23)}`
	},
	span(seconds) {
		const [unit, size] = [["d", 86400], ["h", 3600], ["min", 60]].find(([, size]) => seconds >= size) ?? ["s", 1]
		return `${Math.floor(seconds / size)}\u202f${unit}`
	},
}

export const counted = (count, one, many = `${one}s`) => `${format.count(count)} ${count === 1 ? one : many}`

export function choice(label, options, {value, ...properties} = {}) {
	const select = h("select", {label, ...properties}, options.map(option => {
		const [value, words = value] = [option].flat()
		return h("option", {value}, words)
	}))
	if (value !== undefined) select.value = value
	return select
}

export const definitions = entries => h("dl", entries.map(([name, value]) => value && [h("dt", name), h("dd", value)]))

export const table = (heads, rows, empty) => rows.length === 0 ? h("p.hint", empty) : h(".scroll", h("table",
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

export const panel = (title, content, beside) => h("section.panel", h(".together", h("h2.grow", title), beside), content)

// Light or dark: as the system has it, or as it was chosen.
const THEME_KEY = "pando-theme"
const {style} = document.documentElement
style.colorScheme = localStorage.getItem(THEME_KEY) ?? ""

export function switchTheme() {
	const isDark = style.colorScheme ? style.colorScheme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches
	localStorage.setItem(THEME_KEY, (style.colorScheme = isDark ? "light" : "dark"))
}
