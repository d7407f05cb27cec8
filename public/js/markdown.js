// Markdown as elements, as far as our documents use it. HTML in a document is text.

import { h } from "./dom.js";

const INLINE = /(`+)(.+?)\1(?!`)|!\[([^\]]*)\]\(([^)\s]+)\)|\[((?:`[^`]*`|[^\]])+)\]\(([^)\s]+)\)|\*\*(.+?)\*\*|\*([^*\s](?:[^*]*[^*\s])?)\*|\\([^\w\s])|<(https?:[^>\s]+)>/gs;
const ITEM = /^( *)([-*+]|\d+[.)]) +(.*)$/;

/** The name of a heading in a link. */
export const slug = (text) => text.toLowerCase().replace(/[^\p{L}\p{N}\s_-]/gu, "").trim().replace(/\s/g, "-");

/** Elements for a document. `resolve(address)` gives what a link or image leads to, or null for plain text. */
export function render(source, resolve) {
	const used = new Map();
	return blocks(source.replace(/\r\n?/g, "\n").split("\n"), { resolve, name: (text) => {
		const name = slug(text);
		const count = used.get(name) ?? 0;
		used.set(name, count + 1);
		return count ? `${name}-${count}` : name;
	} });
}

function blocks(lines, context) {
	const output = [];
	let at = 0;
	const take = (matches) => {
		const taken = [];
		while (at < lines.length && matches(lines[at], taken)) taken.push(lines[at++]);
		return taken;
	};
	while (at < lines.length) {
		const line = lines[at];
		const fence = /^ {0,3}(`{3,}|~{3,})/.exec(line);
		const heading = /^(#{1,6}) +(.*?)( +#+)?$/.exec(line);
		if (line.trim() === "") at++;
		else if (fence) {
			at++;
			const code = take((next) => !next.trim().startsWith(fence[1]));
			at++;
			output.push(h("pre", { tabIndex: 0 }, h("code", {}, code.join("\n"))));
		} else if (/^( {4}|\t)/.test(line)) {
			const code = take((next) => /^( {4}|\t)/.test(next) || next.trim() === "");
			output.push(h("pre", { tabIndex: 0 }, h("code", {}, code.map((next) => next.replace(/^( {4}|\t)/, "")).join("\n").trimEnd())));
		} else if (heading) {
			at++;
			const content = inline(heading[2], context);
			const element = h(`h${heading[1].length}`, {}, content);
			element.id = context.name(element.textContent);
			output.push(element);
		} else if (/^ {0,3}([-*_])( *\1){2,} *$/.test(line)) {
			at++;
			output.push(h("hr"));
		} else if (/^ {0,3}>/.test(line)) {
			output.push(h("blockquote", {}, blocks(take((next) => /^ {0,3}>/.test(next)).map((next) => next.replace(/^ {0,3}> ?/, "")), context)));
		} else if (ITEM.test(line)) output.push(list(take, context));
		else if (line.includes("|") && /^[\s|:-]*-[\s|:-]*$/.test(lines[at + 1] ?? "") && lines[at + 1].includes("|")) {
			const [head, , ...rows] = take((next) => next.includes("|"));
			const cells = (row, tag) => h("tr", {}, row.trim().replace(/^\||(?<!\\)\|$/g, "").split(/(?<!\\)\|/).map((cell) => h(tag, {}, inline(cell.trim().replaceAll("\\|", "|"), context))));
			output.push(h("div.table-wrap", { tabIndex: 0 }, h("table", {}, h("thead", {}, cells(head, "th")), h("tbody", {}, rows.map((row) => cells(row, "td"))))));
		} else {
			const text = take((next, taken) => next.trim() !== "" && (taken.length === 0 || !/^(#{1,6} |```| {0,3}>|[-*+] |\d+[.)] )/.test(next)));
			output.push(h("p", {}, inline(text.map((next) => next.trim()).join("\n"), context)));
		}
	}
	return output;
}

function list(take, context) {
	const items = [];
	let indent = 0;
	let first = null;
	take((line) => {
		const found = ITEM.exec(line);
		if (found && (!first || found[1].length <= first[1].length)) {
			if (first && /\d/.test(found[2]) !== /\d/.test(first[2])) return false;
			first ??= found;
			indent = line.length - found[3].length;
			items.push([found[3]]);
			return true;
		}
		const isMore = line.trim() === "" || /^ +/.test(line) || (items.at(-1).at(-1) !== "" && !/^(#|```|\|)/.test(line));
		if (!isMore) return false;
		items.at(-1).push(line.slice(Math.min(indent, /^ */.exec(line)[0].length)));
		return true;
	});
	return h(/\d/.test(first[2]) ? "ol" : "ul", {}, items.map((lines) => {
		const content = blocks(lines, context);
		return h("li", {}, content[0]?.tagName === "P" ? [...content[0].childNodes, ...content.slice(1)] : content);
	}));
}

function inline(text, context) {
	const output = [];
	let end = 0;
	for (const match of text.matchAll(INLINE)) {
		output.push(text.slice(end, match.index));
		end = match.index + match[0].length;
		const [whole, , code, alt, image, label, link, strong, emphasis, escaped, address] = match;
		const target = context.resolve(image ?? link ?? address ?? "");
		if (code !== undefined) output.push(h("code", {}, code.replace(/^ (.*\S.*) $/, "$1")));
		else if (image !== undefined) output.push(target ? h("img", { src: target, alt, loading: "lazy" }) : alt);
		else if (link !== undefined) output.push(target ? h("a", { href: target }, inline(label, context)) : h("span", {}, inline(label, context)));
		else if (strong !== undefined) output.push(h("strong", {}, inline(strong, context)));
		else if (emphasis !== undefined) output.push(h("em", {}, inline(emphasis, context)));
		else if (escaped !== undefined) output.push(escaped);
		else output.push(target ? h("a", { href: target }, address) : whole);
	}
	output.push(text.slice(end));
	return output;
}
