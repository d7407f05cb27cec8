// Rules that were published, as far as the log reaches, with what is different in the editor, and the way back.

import "../vendor/diff.js";
import { session } from "./session.js";
import { h, dialog, toast, formatMoment } from "./dom.js";

const CONTEXT = 3; // lines around a difference

function lineDiff(before, after) {
	const lines = Diff.diffLines(before, after).flatMap(({ value, added, removed }) =>
		value.replace(/\n$/, "").split("\n").map((text) => ({ text, sign: added ? "+" : removed ? "−" : " " })));
	const isNear = (_, place) => lines.slice(Math.max(0, place - CONTEXT), place + CONTEXT + 1).some(({ sign }) => sign !== " ");
	const shown = lines.filter(isNear).map(({ text, sign }) => h("div", { class: { "−": "removed", "+": "added" }[sign] ?? "" }, h("span.sign", sign), h("span.line", text)));
	return h("div.diff", { tabIndex: 0, label: "Differences" }, shown.length ? shown : h("p.hint", "They are the same."));
}

/** Lets the user look at published rules, and put one of them into the editor. */
export async function showVersions(editor) {
	const { rules } = await session.history("/", { part: "rules" }).catch((error) => toast(`Versions: ${error.message}`, "error")) ?? {};
	if (!rules) return;
	if (rules.length === 0) return toast("The log has no rules that were published.");
	const difference = h("div");
	const select = h("select", { autofocus: true, onchange: () => show() },
		rules.map(({ time }, place) => h("option", `${formatMoment(time)}${place ? "" : ", the latest"}`)));
	const show = () => difference.replaceChildren(lineDiff(rules[select.selectedIndex].source, editor.getValue()));
	select.selectedIndex = Math.min(1, rules.length - 1);
	show();
	const body = [h("label", "Published ", select), h("p.hint", "− was in that version, + is in the editor."), difference];
	if (await dialog({ title: "Published rules", confirm: "Put it into the editor", wide: true, body })) editor.setValue(rules[select.selectedIndex].source);
}
