// The rows of the tree: those in view are elements, written at most once in a frame (ARIA tree).

import { h, icon, iconButton, visible, formatCount, formatBytes } from "./dom.js";
import { Branch } from "./tree-model.js";
import { own, stringify } from "./json.js";

const ROW = 24; // pixels
const HEIGHT_LIMIT = 8e6; // pixels that every browser can scroll; more rows are scrolled in proportion
const OVERSCAN = 6; // rows
const INDENT = 18; // pixels
const FLASH_MS = 900;
const stillness = matchMedia("(prefers-reduced-motion: reduce)");

/** What a row says of a value. */
export function valueText(branch) {
	const { kind, value } = branch;
	if (kind === "object") return previewText(branch);
	return kind === "string" ? JSON.stringify(value) : kind === "denied" ? "permission denied" : kind === "unknown" ? "" : String(value);
}

function previewText({ preview, count, isExpanded }) {
	if (!preview || isExpanded) return "";
	const names = Object.keys(preview);
	const parts = names.map((name) => {
		const value = own(preview, name);
		return `${name}: ${value !== null && typeof value === "object" ? "{…}" : stringify(value)}`;
	});
	return parts.join(", ") + (count > names.length ? ", …" : "");
}

export class TreeView {
	constructor(element, actions) {
		Object.assign(this, { element, actions, model: null, selected: null, row: 0, topRow: 0, editor: null });
		this.pool = [];
		this.spacer = h("div.spacer", { role: "presentation" });
		element.append(this.spacer);
		const handlers = { scroll: this.scrolled, wheel: this.wheeled, keydown: this.pressed, click: this.clicked, dblclick: this.doubleClicked, contextmenu: this.menuAsked };
		for (const [name, handler] of Object.entries(handlers)) element.addEventListener(name, handler.bind(this), { passive: name === "scroll" });
		new ResizeObserver(() => this.changed()).observe(element);
	}

	show(model) {
		this.model?.close();
		this.model = model;
		this.closeEditor();
		this.selected = model.root;
		this.row = 0;
		this.topRow = 0;
		this.element.scrollTop = 0;
		for (const element of this.pool) element.branch = null;
		model.addEventListener("change", () => this.changed());
		this.changed();
	}

	changed() {
		this.frame ??= requestAnimationFrame(() => {
			this.frame = undefined;
			if (this.model) this.draw();
		});
	}

	get rowsInView() {
		return Math.max(1, Math.floor(this.element.clientHeight / ROW));
	}

	get isScaled() {
		return this.model.rowCount * ROW > HEIGHT_LIMIT;
	}

	get hiddenRows() {
		return Math.max(0, this.model.rowCount - this.element.clientHeight / ROW);
	}

	scrolled() {
		if (!this.model) return;
		if (this.isScaled) {
			if (Math.abs(this.element.scrollTop - this.ownScrollTop) < 2) return;
			const room = HEIGHT_LIMIT - this.element.clientHeight;
			this.topRow = (this.element.scrollTop / room) * this.hiddenRows;
		} else {
			this.topRow = this.element.scrollTop / ROW;
		}
		this.changed();
	}

	scrollTo(row) {
		this.topRow = Math.max(0, Math.min(row, this.hiddenRows));
		if (this.isScaled) {
			const room = HEIGHT_LIMIT - this.element.clientHeight;
			this.element.scrollTop = (this.topRow / this.hiddenRows) * room;
			this.ownScrollTop = this.element.scrollTop;
		} else {
			this.element.scrollTop = this.topRow * ROW;
		}
		this.changed();
	}

	wheeled(event) {
		if (!this.model || !this.isScaled || event.ctrlKey || event.deltaY === 0) return;
		event.preventDefault();
		this.scrollTo(this.topRow + (event.deltaMode === 1 ? event.deltaY : event.deltaY / ROW));
	}

	reveal(row) {
		if (row < this.topRow) this.scrollTo(row);
		else if (row > this.topRow + this.rowsInView - 1) this.scrollTo(row - this.rowsInView + 1);
	}

	draw() {
		const { model, element } = this;
		const count = model.rowCount;
		const height = Math.min(count * ROW, HEIGHT_LIMIT);
		if (this.height !== height) this.spacer.style.height = `${(this.height = height)}px`;
		if (this.topRow > this.hiddenRows) this.topRow = this.hiddenRows;
		const first = Math.max(0, Math.floor(this.topRow) - OVERSCAN);
		const last = Math.min(count - 1, Math.ceil(this.topRow + element.clientHeight / ROW) + OVERSCAN);
		model.show(first, last);
		const base = this.isScaled ? element.scrollTop - this.topRow * ROW : 0;
		const size = last - first + 1;
		while (this.pool.length < size) this.pool.push(this.makeRow());
		const selectedRow = this.selected ? model.rowOf(this.selected) : -1;
		if (selectedRow >= 0) this.row = selectedRow;
		this.pool.forEach((rowElement, place) => {
			// The element of a row stays the same while it is in view.
			const row = first + ((((place - first) % this.pool.length) + this.pool.length) % this.pool.length);
			const isUsed = row <= last;
			if (rowElement.hidden === isUsed) rowElement.hidden = !isUsed;
			if (!isUsed) return void (rowElement.branch = null);
			this.drawRow(rowElement, row, model.rowAt(row), base + row * ROW, row === this.row);
		});
		element.setAttribute("aria-activedescendant", `row-${this.row}`);
		this.placeEditor(base);
		this.actions.drawn?.();
	}

	makeRow() {
		const part = (name) => h("span", { class: name });
		const row = h("div.row", { role: "treeitem" });
		row.twisty = h("span.twisty", { "aria-hidden": "true" }, icon("right"));
		[row.keyPart, row.valuePart, row.badge, row.priorityPart] = [part("key"), part("value"), part("badge"), part("priority")];
		row.actions = h("span.row-actions", { "aria-hidden": "true" }, [["edit", "Edit"], ["add", "Add a child"], ["more", "More"]].map(([name, label]) =>
			iconButton(name, label, undefined, { tabIndex: -1, "data-action": name })));
		row.append(row.twisty, row.keyPart, row.badge, row.valuePart, row.priorityPart, row.actions);
		this.spacer.append(row);
		return row;
	}

	drawRow(element, row, branch, top, isSelected) {
		if (element.top !== top) element.style.transform = `translateY(${(element.top = top)}px)`;
		if (element.row !== row) element.id = `row-${(element.row = row)}`;
		if (element.isSelected !== isSelected) element.setAttribute("aria-selected", (element.isSelected = isSelected));
		if (!(branch instanceof Branch)) {
			if (element.branch === undefined || element.branch !== null || element.depth !== branch.parent.depth + 1) this.drawPlaceholder(element, branch);
			return;
		}
		const isOther = element.branch !== branch;
		if (isOther || element.version !== branch.version) this.drawBranch(element, branch);
		if (!isOther && branch.changedAt > element.flashedAt && !stillness.matches) {
			element.flash?.cancel();
			element.flash = (branch.kind === "object" ? element.keyPart : element.valuePart).animate([{ backgroundColor: "var(--flash)", boxShadow: "0 0 0 3px var(--flash)" }, { backgroundColor: "transparent", boxShadow: "0 0 0 3px transparent" }], { duration: FLASH_MS, easing: "ease-out" });
		} else if (isOther) {
			element.flash?.cancel();
		}
		element.flashedAt = branch.changedAt;
	}

	drawPlaceholder(element, { parent }) {
		element.branch = null;
		element.className = "row placeholder";
		element.depth = parent.depth + 1;
		element.style.paddingLeft = `${element.depth * INDENT + 6}px`;
		element.keyPart.textContent = "…";
		for (const part of [element.valuePart, element.badge, element.priorityPart]) part.textContent = "";
		element.removeAttribute("aria-expanded");
	}

	drawBranch(element, branch) {
		element.branch = branch;
		element.version = branch.version;
		element.depth = branch.depth;
		const isObject = branch.kind === "object";
		element.className = `row ${branch.kind}${branch === this.model.root ? " root" : ""}${branch.isExpanded ? " expanded" : ""}`;
		element.style.paddingLeft = `${branch.depth * INDENT + 6}px`;
		element.setAttribute("aria-level", branch.depth + 1);
		if (isObject && branch !== this.model.root) element.setAttribute("aria-expanded", branch.isExpanded);
		else element.removeAttribute("aria-expanded");
		if (branch.parent) {
			element.setAttribute("aria-posinset", branch.index + 1);
			element.setAttribute("aria-setsize", branch.parent.count);
		}
		element.keyPart.textContent = visible(branch.key, 160);
		element.valuePart.textContent = visible(valueText(branch), 300);
		element.badge.textContent = isObject ? `${formatCount(branch.count)}${branch.isPartial ? "+" : ""}` : branch.length ? formatBytes(branch.length) : "";
		element.badge.title = isObject ? `${formatCount(branch.count)} ${branch.count === 1 ? "child" : "children"}` : "";
		element.priorityPart.textContent = branch.priority === undefined ? "" : `priority ${visible(JSON.stringify(branch.priority), 40)}`;
		const shownValue = isObject ? `${branch.count} ${branch.count === 1 ? "child" : "children"}` : element.valuePart.textContent;
		element.setAttribute("aria-label", `${element.keyPart.textContent}: ${shownValue}`);
	}

	openEditor(branch, form) {
		this.closeEditor();
		this.editor = { branch, form };
		this.spacer.append(form);
		this.reveal(this.model.rowOf(branch));
		this.changed();
	}

	placeEditor(base) {
		if (!this.editor) return;
		const row = this.model.rowOf(this.editor.branch);
		if (row < 0) return this.closeEditor();
		this.editor.form.style.transform = `translateY(${base + row * ROW}px)`;
		this.editor.form.style.paddingLeft = `${this.editor.branch.depth * INDENT + 6}px`;
	}

	closeEditor() {
		if (!this.editor) return;
		const { form } = this.editor;
		this.editor = null;
		const hadFocus = form.contains(document.activeElement);
		form.remove();
		if (hadFocus) this.element.focus({ preventScroll: true });
	}

	select(branch, { reveals = true } = {}) {
		this.selected = branch;
		const row = this.model.rowOf(branch);
		if (row >= 0) {
			this.row = row;
			if (reveals) this.reveal(row);
		}
		this.actions.selected?.(branch);
		this.changed();
	}

	async selectRow(row) {
		const target = Math.max(0, Math.min(row, this.model.rowCount - 1));
		this.row = target;
		this.reveal(target);
		const found = this.model.rowAt(target);
		if (found instanceof Branch) return this.select(found);
		this.selected = null;
		const { model } = this;
		const wait = () => {
			const loaded = model.rowAt(target);
			const isOver = this.row !== target || this.selected;
			if (!isOver && !(loaded instanceof Branch)) return;
			model.removeEventListener("change", wait);
			if (!isOver) this.select(loaded);
		};
		model.addEventListener("change", wait);
		this.changed();
	}

	rowOfEvent(event) {
		const element = event.target.closest?.(".row");
		return element?.branch ? element : null;
	}

	clicked(event) {
		const element = this.rowOfEvent(event);
		if (!element) return;
		const { branch } = element;
		const action = event.target.closest("[data-action]")?.dataset.action;
		this.select(branch, { reveals: false });
		if (event.target.closest(".twisty")) this.toggle(branch);
		else if (action === "more") this.actions.menu(branch, event.target.closest("button"));
		else if (action === "edit") this.actions.edit(branch);
		else if (action === "add") this.actions.add(branch);
	}

	doubleClicked(event) {
		const element = this.rowOfEvent(event);
		if (!element || event.target.closest("button")) return;
		if (element.branch.kind === "object") this.toggle(element.branch);
		else this.actions.edit(element.branch);
	}

	menuAsked(event) {
		const element = this.rowOfEvent(event);
		if (!element) return;
		event.preventDefault();
		this.select(element.branch, { reveals: false });
		this.actions.menu(element.branch, { x: event.clientX, y: event.clientY });
	}

	toggle(branch) {
		if (branch.isExpanded) this.model.collapse(branch);
		else this.model.expand(branch);
	}

	pressed(event) {
		if (event.target !== this.element || !this.model) return;
		const branch = this.selected;
		const isCommand = event.ctrlKey || event.metaKey;
		const menu = () => branch && this.actions.menu(branch, document.getElementById(`row-${this.row}`));
		const add = () => branch && this.actions.add(branch);
		const act = {
			ArrowDown: () => this.selectRow(this.row + 1),
			ArrowUp: () => this.selectRow(this.row - 1),
			PageDown: () => this.selectRow(this.row + this.rowsInView - 1),
			PageUp: () => this.selectRow(this.row - this.rowsInView + 1),
			Home: () => this.selectRow(0),
			End: () => this.selectRow(this.model.rowCount - 1),
			ArrowRight: () => branch && (branch.kind === "object" && !branch.isExpanded ? this.model.expand(branch) : branch.below && this.selectRow(this.row + 1)),
			ArrowLeft: () => branch && (branch.isExpanded && branch.parent ? this.model.collapse(branch) : branch.parent && this.select(branch.parent)),
			Enter: () => branch && (event.shiftKey ? this.actions.open(branch) : branch.kind === "object" ? this.toggle(branch) : this.actions.edit(branch)),
			" ": () => branch && this.toggle(branch),
			F2: () => branch && this.actions.edit(branch),
			Insert: add,
			"+": add,
			Delete: () => branch && this.actions.remove(branch),
			Backspace: () => this.actions.up(),
			"/": () => this.actions.find(),
			ContextMenu: menu,
			F10: () => event.shiftKey && menu(),
		}[event.key];
		if (isCommand && event.key.toLowerCase() === "z") this.actions.undo();
		else if (isCommand && event.key.toLowerCase() === "c" && !getSelection().toString()) this.actions.copy(branch);
		else if (isCommand || event.altKey) return;
		else if (act) act();
		else return;
		event.preventDefault();
	}
}
