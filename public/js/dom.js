// Elements without HTML text: whatever the tree holds becomes a text node or an attribute, never markup.

/** An element: `h("div.class", {property, attribute, onevent, label}, children)` or without the properties; `label` is its name for screen readers. */
export function h(selector, properties, ...children) {
	if (properties?.constructor !== Object) return h(selector, {}, properties, ...children);
	const [tag, ...classes] = selector.split(".");
	const element = document.createElement(tag);
	element.classList.add(...classes);
	if (tag === "button") element.type = "button";
	if (/^(input|textarea)$/.test(tag)) Object.assign(element, { spellcheck: false, autocomplete: "off" });
	for (const [name, value] of Object.entries(properties)) {
		if (value === undefined || value === null || value === false) continue;
		if (name === "label") element.setAttribute("aria-label", value);
		else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
		else if (name in element && !/^(list|role|form)$/.test(name) && !name.includes("-")) element[name] = value;
		else element.setAttribute(name, value === true ? "" : value);
	}
	element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
	return element;
}

const ICONS = {
	add: "M8 3v10M3 8h10", edit: "M3 13l1-3 7-7 2 2-7 7zM10 4l2 2", more: "M3.5 8h.01M8 8h.01M12.5 8h.01",
	copy: "M6 6h7v7H6zM10 6V3H3v7h3", undo: "M6 4L3 7l3 3M3 7h6a4 4 0 0 1 0 8H7",
	theme: "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zM8 2v12M10 5v6M12 6v4", close: "M4 4l8 8M12 4l-8 8", right: "M6 4l4 4-4 4",
	user: "M8 3a2.5 2.5 0 1 0 0 5 2.5 2.5 0 0 0 0-5zM3 14c.5-3 2.5-4.5 5-4.5s4.5 1.5 5 4.5",
	download: "M8 2v8M5 7l3 3 3-3M3 13h10", upload: "M8 10V2M5 5l3-3 3 3M3 13h10",
};

/** An element of SVG. */
export function svg(tag, attributes, ...children) {
	const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
	for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
	element.append(...children);
	return element;
}

/** A line icon of 16 pixels; it has no name of its own. */
export const icon = (name) => svg("svg", { viewBox: "0 0 16 16", width: 16, height: 16, "aria-hidden": true, class: "icon" }, svg("path", { d: ICONS[name] }));

/** A button with an icon. */
export const iconButton = (name, label, onclick, properties = {}) =>
	h("button.icon-button", { title: label, label, onclick, ...properties }, icon(name));

// Control characters, and those that change the direction of text or have no width.
const INVISIBLE = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]/g;
const NAMES = { "\n": "⏎", "\t": "⇥", "\r": "␍" };

/** Text of one line in which nothing is invisible; cut after `limit` characters. */
export function visible(text, limit = 400) {
	const cut = text.length > limit ? text.slice(0, limit) + "…" : text;
	return cut.replace(INVISIBLE, (found) => NAMES[found] ?? `⟨${found.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
}

/** Shows a short message; screen readers say it. */
export function toast(text, kind = "info", action = null) {
	const area = document.getElementById("toasts");
	const close = () => item.remove();
	const item = h(`div.toast.${kind}`, h("span", text), action && h("button.link", { onclick: () => { close(); action.run(); } }, action.label),
		iconButton("close", "Close", close));
	area.append(item);
	while (area.childElementCount > 4) area.firstElementChild.remove();
	setTimeout(close, kind === "error" ? 12000 : 6000);
}

/** Opens a dialog; resolves with `result()`, or null. A message of `check()` keeps it open. */
export function dialog({ title, body, confirm = "OK", danger = false, check = () => "", result = () => true, wide = false }) {
	return new Promise((resolve) => {
		const problem = h("p.problem", { role: "alert" });
		const ok = h(danger ? "button.primary.danger" : "button.primary", { type: "submit" }, confirm);
		const form = h("form", { method: "dialog" }, h("header", h("h2", { id: "dialog-title" }, title),
			iconButton("close", "Cancel", () => element.close())),
		h("div.dialog-body", body, problem),
		h("footer", h("button", { onclick: () => element.close() }, "Cancel"), ok));
		const element = h(wide ? "dialog.wide" : "dialog", { "aria-labelledby": "dialog-title" }, form);
		let outcome = null;
		form.addEventListener("submit", async (event) => {
			event.preventDefault();
			if (ok.disabled) return;
			ok.disabled = true;
			try {
				problem.textContent = (await check()) || "";
			} catch (error) {
				problem.textContent = error.message;
			}
			ok.disabled = false;
			if (problem.textContent) return;
			outcome = result();
			element.close();
		});
		element.addEventListener("close", () => { element.remove(); resolve(outcome); });
		document.body.append(element);
		element.showModal();
		(element.querySelector("[autofocus]") ?? (danger ? form.querySelector("footer button") : ok)).focus();
	});
}

/** A menu of {label, run, hint, danger}, or null for a line. */
export function menu(anchor, items) {
	document.querySelector(".menu")?.remove();
	const previous = document.activeElement;
	const close = () => {
		list.remove();
		document.removeEventListener("pointerdown", outside, true);
		previous?.focus?.({ preventScroll: true });
	};
	const outside = (event) => list.contains(event.target) || close();
	const buttons = items.map((item) => item === null ? h("hr") : h("button", {
		role: "menuitem", tabIndex: -1, class: item.danger ? "danger" : "", onclick: () => { close(); item.run(); },
	}, h("span", item.label), item.hint && h("kbd", item.hint)));
	const list = h("div.menu", { role: "menu", label: "Actions", onkeydown: (event) => {
		const entries = buttons.filter((button) => button.tagName === "BUTTON");
		const place = entries.indexOf(document.activeElement);
		const next = { ArrowDown: place + 1, ArrowUp: place - 1, Home: 0, End: entries.length - 1 }[event.key];
		if (next !== undefined) entries.at(next % entries.length).focus();
		else if (event.key === "Escape" || event.key === "Tab") close();
		else if (event.key.length === 1) entries.find((entry) => entry.textContent.toLowerCase().startsWith(event.key.toLowerCase()))?.focus();
		else return;
		event.preventDefault();
		event.stopPropagation();
	} }, buttons);
	document.body.append(list);
	const place = anchor.getBoundingClientRect?.() ?? { left: anchor.x, right: anchor.x, bottom: anchor.y, top: anchor.y };
	const size = list.getBoundingClientRect();
	list.style.left = `${Math.max(4, Math.min(place.left, innerWidth - size.width - 4))}px`;
	list.style.top = `${place.bottom + size.height > innerHeight - 4 ? Math.max(4, place.top - size.height) : place.bottom + 2}px`;
	document.addEventListener("pointerdown", outside, true);
	buttons[0].focus();
}

/** Copies text, also by http from another machine, where there is no clipboard. */
export async function copy(text, what = "Copied") {
	try {
		await navigator.clipboard.writeText(text);
	} catch {
		const area = h("textarea.offscreen");
		area.value = text;
		(document.querySelector("dialog[open]") ?? document.body).append(area);
		area.select();
		document.execCommand("copy");
		area.remove();
	}
	toast(what);
}

/** Saves text or a blob as a file. */
export function save(name, content, type = "application/json") {
	const url = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
	h("a", { href: url, download: name }).click();
	setTimeout(() => URL.revokeObjectURL(url), 60000);
}

export const formatCount = (count) => count.toLocaleString("en-US").replaceAll(",", "\u202f");
export const formatBytes = (bytes) => bytes < 1000 ? `${Math.round(bytes)} B` : bytes < 1e6 ? `${(bytes / 1e3).toFixed(1)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
export const formatTime = (milliseconds) => new Date(milliseconds).toLocaleTimeString("en-GB") + "." + String(Math.floor(milliseconds) % 1000).padStart(3, "0");

/** A time of today, or a date and a time. */
export const formatMoment = (milliseconds) =>
	(new Date(milliseconds).toDateString() === new Date().toDateString() ? "" : `${new Date(milliseconds).toLocaleDateString("en-GB")} `) + formatTime(milliseconds);

/** A choice among values, or among [value, words]. */
export const choice = (label, options, properties) => h("select", { label, ...properties },
	options.map((option) => Array.isArray(option) ? h("option", { value: option[0] }, option[1]) : h("option", option)));

/** A table of rows of cells, or words where there is no row. */
export const table = (heads, rows, empty) => rows.length === 0 ? h("p.hint", empty) : h("div.scroll", h("table",
	h("thead", h("tr", heads.map((name) => h("th", { scope: "col" }, name)))),
	h("tbody", rows.map((cells) => h("tr", cells.map((cell) => h("td", cell)))))));
