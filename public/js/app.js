// Signing in, the bar at the top, and which page is shown: #/data/DATABASE/path, #/query/…, #/rules/…, #/operations/…

import { session, link, STORED } from "./session.js";
import { feed } from "./feed.js";
import { h, iconButton, icon, dialog, visible } from "./dom.js";
import { switchTheme } from "./theme.js";
import { DataPage } from "./page-data.js";
import { readJSON } from "./edit.js";

const PAGES = {
	data: { label: "Data", load: () => ({ Page: DataPage }) },
	query: { label: "Query", load: () => import("./page-query.js") },
	history: { label: "History", isForAdmins: true, load: () => import("./page-history.js") },
	rules: { label: "Rules", isForAdmins: true, load: () => import("./page-rules.js") },
	operations: { label: "Operations", isForAdmins: true, load: () => import("./page-operations.js") },
};
const LOOPBACK = /^(localhost|.*\.localhost|127(\.\d+){3}|\[::1\])$/;
const app = document.getElementById("app");

function place() {
	const [path, rest = ""] = location.hash.replace(/^#\/?/, "").split("?");
	const [page, namespace, ...keys] = path.split("/").map(safeDecode);
	return { page: PAGES[page] ? page : "data", namespace: namespace || null, keys: keys.filter(Boolean), parameters: new URLSearchParams(rest) };
}

function safeDecode(text) {
	try {
		return decodeURIComponent(text);
	} catch {
		return text;
	}
}

async function start() {
	session.namespace = place().namespace ?? new URLSearchParams(location.search).get("ns") ?? "default";
	const stored = sessionStorage.getItem(STORED);
	// A --dev server takes the credential of its tools; it serves this machine only.
	for (const credential of [stored, LOOPBACK.test(location.hostname) ? "owner" : null]) {
		if (credential === null) continue;
		try {
			await session.signIn(credential, { isKept: credential === stored });
			return showFrame();
		} catch (error) {
			if (error.code === "offline") return showSignIn("The server does not answer.");
		}
	}
	showSignIn();
}

function showSignIn(words = "") {
	const token = h("input", { type: "password", required: true, label: "Token or secret", "aria-describedby": "sign-in-hint" });
	const kept = h("input", { type: "checkbox" });
	const problem = h("p.problem", { role: "alert" }, words);
	const button = h("button.primary", { type: "submit" }, "Sign in");
	const submit = async (event) => {
		event.preventDefault();
		button.disabled = true;
		problem.textContent = "";
		try {
			await session.signIn(token.value.trim(), { isKept: kept.checked });
			showFrame();
		} catch (error) {
			problem.textContent = error.code === "offline" ? "The server does not answer." : `Not signed in: ${error.message}`;
			button.disabled = false;
			token.select();
		}
	};
	app.replaceChildren(h("main.gate", h("form.card", { onsubmit: submit }, brand(), h("h1", "Sign in"),
		h("label", "Token or secret", token),
		h("p.hint", { id: "sign-in-hint" }, "An administrator's token, as pando token --claim admin=true prints it, or a user's. It stays in this tab."),
		h("label.check", kept, "Keep it until the tab is closed"), problem, button,
		h("p.hint", h("a", { href: "/docs" }, "Documentation")))));
	token.focus();
}

const brand = () => h("div.brand", h("img", { src: "/favicon.svg", alt: "", width: 22, height: 22 }), "Pando");

let page = null;

function showFrame() {
	const databases = h("select", { id: "databases", label: "Database", onchange: () => (location.hash = link(place().page, [], databases.value)) });
	const links = Object.entries(PAGES).map(([name, { label, isForAdmins }]) => (!isForAdmins || session.isAdmin) && h("a", { id: `to-${name}` }, label));
	app.replaceChildren(
		h("a.skip", { href: "#main", onclick: (event) => { event.preventDefault(); document.querySelector("#main [tabindex='0'], #main input, #main textarea")?.focus(); } }, "Skip to the content"),
		h("header.bar", brand(), databases, h("nav", { label: "Pages" }, links, h("a", { href: "/docs", target: "_blank" }, "Docs")),
			h("span.space"),
			h("span.state", { id: "state", role: "status" }),
			h("button.actor", { id: "actor", title: "Whose rights requests have", onclick: chooseActor }),
			iconButton("theme", "Light or dark", switchTheme)),
		h("main", { id: "main" }));
	listDatabases(databases);
	session.addEventListener("state", (event) => showState(event.detail));
	session.addEventListener("database", () => { showActor(); showPage(); });
	feed.addEventListener("live", () => showState());
	window.addEventListener("hashchange", showPage);
	showActor();
	showPage();
}

async function listDatabases(select) {
	const names = await session.databases().catch(() => [session.namespace]);
	select.replaceChildren(...names.map((name) => h("option", { selected: name === session.namespace }, name)));
}

let lastState = "connecting";
function showState(detail) {
	if (detail) lastState = detail.state;
	const element = document.getElementById("state");
	const words = { open: "live", connecting: "connecting…", waiting: "no connection; trying again", refused: "signed out", closed: "closed" }[lastState];
	element.className = `state ${lastState}`;
	element.textContent = words;
	element.title = lastState === "open" && session.isAdmin && !feed.isLive ? "The stream of changes is not there yet" : words;
	if (lastState === "refused" && detail?.error) element.textContent = `signed out: ${visible(detail.error.message, 80)}`;
}

function showActor() {
	const button = document.getElementById("actor");
	button.replaceChildren(icon("user"), h("span", session.isActing ? `as ${visible(session.actorName, 24)}` : visible(session.actorName, 24)));
	button.classList.toggle("other", session.isActing);
}

async function chooseActor() {
	const { kind, auth } = session.actor;
	const option = (value, label, hint) => h("label.check", h("input", { type: "radio", name: "actor", value, checked: value === kind }), h("span", label, hint && h("span.hint", hint)));
	const uid = h("input", { label: "uid", value: auth?.uid ?? "", placeholder: "uid" });
	const claims = h("textarea.code", { rows: 3, label: "Claims", placeholder: '{"role": "editor"}', value: auth?.token ? JSON.stringify(auth.token) : "" });
	const token = h("input", { type: "password", label: "Token", placeholder: "token" });
	const choices = h("div.choices", option("self", "Yourself", session.isAdmin && " administrator: rules are not asked"), option("anonymous", "Nobody", " not signed in"),
		session.isAdmin && [option("user", "A user with this uid and these claims"), h("div.sub", uid, claims)], option("token", "The user of a token"), h("div.sub", token));
	for (const [field, value] of [[uid, "user"], [claims, "user"], [token, "token"]]) field.addEventListener("input", () => (choices.querySelector(`[value=${value}]`).checked = true));
	const chosen = () => choices.querySelector("input[name=actor]:checked").value;
	const actor = await dialog({
		title: "Run as", confirm: "Use", body: [h("p.hint", "The tree, queries and edits then see what this user's rules allow."), choices,
			h("p", h("button.link", { onclick: () => session.signOut() }, "Sign out"))],
		check: () => {
			const kind = chosen();
			if (kind === "user" && !uid.value) return "A user has a uid.";
			if (kind === "user" && typeof readJSON(claims.value.trim() || "{}") !== "object") return "Claims are a JSON object.";
			return kind === "token" && !token.value.trim() ? "Paste a token." : "";
		},
		result: () => ({ kind: chosen(), token: token.value.trim(), auth: { uid: uid.value, token: chosen() === "user" ? readJSON(claims.value.trim() || "{}") : {} } }),
	});
	if (actor) session.actAs(actor);
}

let shown = 0;
async function showPage() {
	const number = ++shown;
	const { page: name, namespace, keys } = place();
	if (namespace && namespace !== session.namespace) return session.use(namespace); // shows the page
	const { Page } = await PAGES[name].load();
	if (number !== shown) return;
	for (const one of document.querySelectorAll(".bar nav a[id]")) {
		const to = one.id.slice(3);
		one.href = link(to, /data|query|history/.test(to) ? keys : []);
		one.ariaCurrent = to === name ? "page" : null;
	}
	const select = document.getElementById("databases");
	if (![...select.options].some((option) => option.value === session.namespace)) select.append(h("option", { value: session.namespace }, session.namespace));
	select.value = session.namespace;
	document.title = `${PAGES[name].label} · ${session.namespace} · Pando`;
	if (page instanceof Page && page.update?.(place())) return;
	page?.close();
	page = new Page(place());
	document.getElementById("main").replaceChildren(page.element);
	page.opened?.();
}

// A page that is left keeps no connection, also where the browser keeps the page.
addEventListener("pagehide", () => { session.database?.close(); feed.abort?.abort(); });
addEventListener("pageshow", (event) => event.persisted && location.reload());
start();
