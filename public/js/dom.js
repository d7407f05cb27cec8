// Elements: whatever the tree holds becomes a text node or an attribute, never markup.

/** An element: `h("div.class", {property, attribute, onevent}, children)`; `label` is its name for screen readers. */
export function h(selector, properties, ...children) {
	if (properties?.constructor !== Object) return h(selector, {}, properties, ...children);
	const [tag, ...classes] = selector.split(".");
	const element = document.createElement(tag);
	element.classList.add(...classes);
	if (tag === "button") element.type = "button";
	if (tag === "input") element.autocomplete = "off";
	for (const [name, value] of Object.entries(properties)) {
		if ((value ?? false) === false) continue;
		if (name === "label") element.setAttribute("aria-label", value);
		else if (name === "onsubmit") element.addEventListener("submit", (event) => value(event.preventDefault()));
		else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
		else if (name in element) element[name] = value;
		else element.setAttribute(name, value === true ? "" : value);
	}
	element.append(...children.flat(Infinity).filter((child) => (child ?? false) !== false));
	return element;
}

const ICONS = {
	add: "M8 3v10M3 8h10", edit: "M3 13l1-3 7-7 2 2-7 7zM10 4l2 2", more: "M3.5 8h.01M8 8h.01M12.5 8h.01",
	copy: "M6 6h7v7H6zM10 6V3H3v7h3", undo: "M6 4L3 7l3 3M3 7h6a4 4 0 0 1 0 8H7",
	theme: "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zM8 2v12M10 5v6M12 6v4", close: "M4 4l8 8M12 4l-8 8", right: "M6 4l4 4-4 4",
	user: "M8 3a2.5 2.5 0 1 0 0 5 2.5 2.5 0 0 0 0-5zM3 14c.5-3 2.5-4.5 5-4.5s4.5 1.5 5 4.5",
};

export function svg(tag, attributes, ...children) {
	const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
	for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
	element.append(...children);
	return element;
}

export const icon = (name) => svg("svg", { viewBox: "0 0 16 16", width: 16, height: 16, "aria-hidden": true, class: "icon" }, svg("path", { d: ICONS[name] }));

/** A button with words; `kind` is its classes, as in ".small". */
export const button = (label, onclick, kind = "", properties = {}) => h(`button${kind}`, { onclick, ...properties }, label);

export const iconButton = (name, label, onclick, properties = {}) =>
	h("button.icon-button", { title: label, label, onclick, ...properties }, icon(name));

// Control characters, and those that change the direction of text or have no width.
const INVISIBLE = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]/g;

/** Text of one line in which nothing is invisible; cut after `limit` characters. */
export function visible(text, limit = 400) {
	const cut = text.length > limit ? text.slice(0, limit) + "…" : text;
	return cut.replace(INVISIBLE, (found) => `⟨${found.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
}

/** Shows a short message, which screen readers say, with a button where there is one. */
export function toast(text, kind = "info", action) {
	const area = document.getElementById("toasts");
	const close = () => item.remove();
	const item = h(`div.toast.${kind}`, h("span", text), action,
		iconButton("close", "Close", close));
	area.append(item);
	while (area.childElementCount > 4) area.firstElementChild.remove();
	// One that is pointed at, or has the focus, stays.
	setTimeout(() => item.matches(":hover, :focus-within") || close(), kind === "error" ? 12000 : 6000);
}

/** Opens a dialog; resolves with whether it was confirmed. A message, or an error, of `check()` keeps it open. */
export function dialog({ title, body, confirm, danger, check = () => "", wide }) {
	return new Promise((resolve) => {
		const problem = h("p.problem", { role: "alert" });
		const ok = h(`button.primary${danger ? ".danger" : ""}`, { type: "submit" }, confirm);
		const close = () => element.close();
		const cancel = button("Cancel", close);
		let isConfirmed = false;
		const onsubmit = async () => {
			if (ok.disabled) return;
			ok.disabled = true;
			problem.textContent = await Promise.try(check).catch((error) => error.message) || "";
			ok.disabled = false;
			isConfirmed = problem.textContent === "";
			if (isConfirmed) close();
		};
		const element = h(`dialog${wide ? ".wide" : ""}`, { "aria-labelledby": "dialog-title", onclose: () => { element.remove(); resolve(isConfirmed); } },
			h("form", { method: "dialog", onsubmit }, h("header", h("h2", { id: "dialog-title" }, title), iconButton("close", "Cancel", close)),
				h("div.dialog-body", body, problem), h("footer", cancel, ok)));
		document.body.append(element);
		element.showModal();
		(element.querySelector("[autofocus]") ?? (danger ? cancel : ok)).focus();
	});
}

/** A menu of [label, action, key, class], or null for a line, at an element or a point. */
export function menu(anchor, items) {
	const close = () => list.hidePopover(); // the focus goes back
	const entry = ([label, run, key, name]) =>
		button([h("span", label), key && h("kbd", key)], () => { close(); run(); }, "", { role: "menuitem", tabIndex: -1, class: name });
	const onkeydown = (event) => {
		const place = entries.indexOf(document.activeElement);
		const next = { ArrowDown: place + 1, ArrowUp: place - 1, Home: 0, End: entries.length - 1 }[event.key];
		if (next !== undefined) entries.at(next % entries.length).focus();
		else if (event.key === "Tab") close();
		else return;
		event.preventDefault();
	};
	const list = h("div.menu", { popover: "auto", role: "menu", label: "Actions", onkeydown, ontoggle: ({ newState }) => newState === "closed" && list.remove() },
		items.map((item) => (item ? entry(item) : h("hr"))));
	const entries = [...list.querySelectorAll("button")];
	document.body.append(list);
	list.showPopover();
	const { left, bottom, top } = anchor instanceof Element ? anchor.getBoundingClientRect() : new DOMRect(anchor.x, anchor.y);
	const { width, height } = list.getBoundingClientRect();
	list.style.left = `${Math.max(4, Math.min(left, innerWidth - width - 4))}px`;
	list.style.top = `${bottom + height > innerHeight - 4 ? Math.max(4, top - height) : bottom + 2}px`;
	entries[0].focus();
}

export async function copy(text, what) {
	try {
		await navigator.clipboard.writeText(text);
	} catch {
		const area = h("textarea.offscreen", { value: text });
		document.body.append(area);
		area.select();
		document.execCommand("copy");
		area.remove();
	}
	toast(what);
}

export function save(name, content) {
	const url = URL.createObjectURL(new Blob([content]));
	h("a", { href: url, download: name }).click();
	setTimeout(() => URL.revokeObjectURL(url), 60000);
}

export const formatCount = (count) => count.toLocaleString("fr"); // 1 234

export function formatBytes(bytes) {
	const power = Math.min(3, Math.floor(Math.log10(bytes) / 3));
	return power > 0 ? `${(bytes / 1000 ** power).toFixed(1)} ${" kMG"[power]}B` : `${Math.round(bytes)} B`;
}

/** A time of today, or a date and a time. */
export function formatMoment(milliseconds) {
	const date = new Date(milliseconds);
	const day = date.toDateString() === new Date().toDateString() ? "" : `${date.toLocaleDateString("en-GB")} `;
	return `${day}${date.toLocaleTimeString("en-GB")}.${date.toISOString().slice(20, 23)}`;
}

export function formatSpan(seconds) {
	const [unit, size] = [["d", 86400], ["h", 3600], ["min", 60]].find(([, size]) => seconds >= size) ?? ["s", 1];
	return `${Math.floor(seconds / size)}\u202f${unit}`;
}

/** A choice among values, or [value, words]. */
export function choice(label, options, { value, ...properties } = {}) {
	const select = h("select", { label, ...properties }, options.map((option) => Array.isArray(option) ? h("option", { value: option[0] }, option[1]) : h("option", option)));
	if (value !== undefined) select.value = value;
	return select;
}

export const table = (heads, rows, empty) => rows.length === 0 ? h("p.hint", empty) : h("div.scroll", h("table",
	h("thead", h("tr", heads.map((name) => h("th", { scope: "col" }, name)))),
	h("tbody", rows.map((cells) => h("tr", cells.map((cell) => h("td", cell)))))));

/** A panel of a page, with its title and what stands beside that. */
export const panel = (title, content, beside) => h("section.panel", h("div.together", h("h2.grow", title), beside), content);
