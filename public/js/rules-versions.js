// Published rules, what is different in the editor, and the way back.

import "../vendor/diff.js";
import { session } from "./session.js";
import { h, choice, dialog, toast, visible, formatMoment } from "./dom.js";

const CONTEXT = 3; // lines around a difference
const KINDS = { "-": "removed", "+": "added" };

function lineDiff(before, after) {
	const lines = Diff.structuredPatch("", "", before, after, "", "", { context: CONTEXT }).hunks.flatMap((hunk) => hunk.lines).filter((line) => !line.startsWith("\\"));
	const rows = lines.map((line) => h("div", { class: KINDS[line[0]] }, h("span.sign", line[0]), h("span.line", line.slice(1))));
	return h("div.diff", { tabIndex: 0, label: "Differences" }, rows.length ? rows : h("p.hint", "They are the same."));
}

export async function showVersions(editor) {
	const { rules } = await session.history("/", { part: "rules" }).catch((error) => toast(`Versions: ${error.message}`, "error")) ?? {};
	if (!rules) return;
	if (rules.length === 0) return toast("The journal has no published rules.");
	const difference = h("div");
	const publisherOf = ({ uid, key }) => visible([uid ?? "administrator", key && `key ${key}`].filter(Boolean).join(", "), 80);
	const version = choice("Version", rules.map((one, place) => [place, `${formatMoment(one.time)} by ${publisherOf(one)}${place ? "" : ", the latest"}`]), { autofocus: true, onchange: show });
	function show() {
		difference.replaceChildren(lineDiff(rules[version.value].source, editor.getValue()));
	}
	version.value = Math.min(1, rules.length - 1);
	show();
	const body = [h("label", "Published ", version), h("p.hint", "− was in that version, + is in the editor."), difference];
	if (await dialog({ title: "Published rules", confirm: "Put it into the editor", wide: true, body })) editor.setValue(rules[version.value].source);
}
