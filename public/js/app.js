// Signing in, the bar at the top, and which page is shown: #/data/DATABASE/path, #/query/…

import { session, link, STORED } from "./session.js";
import { feed } from "./feed.js";
import { h, button, iconButton, icon, dialog, visible } from "./dom.js";
import { switchTheme } from "./theme.js";
import { userField } from "./user-field.js";
import * as data from "./page-data.js";

const PAGES = { data: "Data", query: "Query", history: "History", rules: "Rules", operations: "Operations" };
const FOR_ADMINS = /history|rules|operations/;
const STATES = { open: "live", connecting: "connecting…", waiting: "no connection; trying again", closed: "closed" };
const LOOPBACK = /^(localhost|.*\.localhost|127(\.\d+){3}|\[::1\])$/;
const app = document.getElementById("app");

function place() {
	const [path, rest = ""] = location.hash.replace(/^#\/?/, "").split("?");
	let names = [];
	try {
		names = path.split("/").map(decodeURIComponent);
	} catch { /* no link of ours */ }
	const [name, namespace, ...keys] = names;
	return { name: Object.hasOwn(PAGES, name) ? name : "data", namespace: namespace || null, keys: keys.filter(Boolean), parameters: new URLSearchParams(rest) };
}

async function start() {
	session.namespace = place().namespace ?? new URLSearchParams(location.search).get("ns") ?? "default";
	const stored = sessionStorage.getItem(STORED);
	// A --dev server takes this credential, on this machine only.
	for (const credential of [stored, LOOPBACK.test(location.hostname) && "owner"].filter(Boolean)) {
		try {
			await session.signIn(credential, { isKept: credential === stored });
			return showFrame();
		} catch (error) {
			if (error.code === "offline") return showSignIn(error.message);
		}
	}
	showSignIn();
}

function showSignIn(words = "") {
	const token = h("input", { type: "password", required: true, "aria-describedby": "sign-in-hint" });
	const kept = h("input", { type: "checkbox" });
	const problem = h("p.problem", { role: "alert" }, words);
	const submit = h("button.primary", { type: "submit" }, "Sign in");
	const onsubmit = async () => {
		submit.disabled = true;
		problem.textContent = "";
		try {
			await session.signIn(token.value.trim(), { isKept: kept.checked });
			showFrame();
		} catch (error) {
			problem.textContent = `Not signed in: ${error.message}`;
			submit.disabled = false;
			token.select();
		}
	};
	app.replaceChildren(h("main.gate", h("form.card", { onsubmit }, brand(), h("h1", "Sign in"),
		h("label", "Token or secret", token),
		h("p.hint", { id: "sign-in-hint" }, "An administrator's, as pando token --admin prints it, or a user's. It stays in this tab."),
		h("label.check", kept, "Keep it until the tab is closed"), problem, submit,
		h("p.hint", h("a", { href: "/docs" }, "Documentation")))));
	token.focus();
}

const brand = () => h("div.brand", h("img", { src: "/favicon.svg", alt: "", width: 22, height: 22 }), "Pando");

const links = Object.entries(PAGES).map(([name, label]) => ({ name, element: h("a", label) }));
const databases = h("select", { id: "databases", label: "Database", onchange: () => (location.hash = link(place().name, [], databases.value)) });
const stateElement = h("span.state", { id: "state", role: "status" });
const actorButton = button("", chooseActor, ".actor", { id: "actor", title: "Whose rights requests have" });
const main = h("main", { id: "main" });

function showFrame() {
	const skip = (event) => {
		event.preventDefault();
		main.querySelector("[tabindex='0'], input, textarea")?.focus();
	};
	app.replaceChildren(
		h("a.skip", { href: "#main", onclick: skip }, "Skip to the content"),
		h("header.bar", brand(), databases, h("nav", { label: "Pages" }, links.filter(({ name }) => session.isAdmin || !FOR_ADMINS.test(name)).map(({ element }) => element), h("a", { href: "/docs", target: "_blank" }, "Docs")),
			h("span.grow"), stateElement, actorButton, iconButton("theme", "Light or dark", switchTheme)),
		main);
	databases.append(...(session.databases ?? []).map(({ name }) => h("option", name)));
	session.addEventListener("state", (event) => showState(event.detail));
	session.addEventListener("database", () => { showActor(); showPage(); });
	addEventListener("hashchange", showPage);
	showState(session.database);
	showActor();
	showPage();
}

function selectDatabase() {
	databases.value = session.namespace;
	if (databases.selectedIndex < 0) databases.append(h("option", { selected: true }, session.namespace));
}

function showState({ state, error }) {
	stateElement.className = `state ${state}`;
	stateElement.title = stateElement.textContent = error ? `signed out, reload to sign in: ${visible(error.message, 80)}` : STATES[state];
}

function showActor() {
	const { isActing, actorName } = session;
	actorButton.replaceChildren(icon("user"), h("span", isActing && "as ", visible(actorName, 24)));
	actorButton.classList.toggle("other", isActing);
}

async function chooseActor() {
	const { isAdmin } = session;
	const field = userField([["self", isAdmin ? "Yourself: rules are not asked" : "Yourself"], ["anonymous", "Anonymous: not signed in"], ...(isAdmin ? [["user", "A user"]] : []), ["token", "The user of a token"]]);
	field.show(session.actor);
	let actor;
	const check = () => void (actor = field.read());
	const body = [h("p.hint", "Data and queries are then as this user's rules allow."), field.element, h("p", button("Sign out", () => session.signOut(), ".link"))];
	if (await dialog({ title: "Run as", confirm: "Use", body, check })) session.actAs(actor);
}

let page = null; // a module: {element, show(place), opened(), close()}
let wanted = 0;
async function showPage() {
	const number = ++wanted;
	const { name, namespace, keys } = place();
	if (namespace && namespace !== session.namespace) return session.use(namespace); // shows the page
	const module = name === "data" ? data : await import(`./page-${name}.js`);
	if (number !== wanted) return;
	for (const { element, name: to } of links) {
		element.href = link(to, /rules|operations/.test(to) ? [] : keys);
		element.ariaCurrent = to === name ? "page" : null;
	}
	selectDatabase();
	document.title = `${PAGES[name]} · ${session.namespace} · Pando`;
	const isOther = module !== page;
	if (isOther) {
		page?.close();
		page = module;
		main.replaceChildren(page.element);
	}
	page.show(place());
	if (isOther) page.opened?.();
}

// A page that is left keeps no connection.
addEventListener("pagehide", () => { session.database?.close(); feed.abort?.abort(); });
addEventListener("pageshow", (event) => event.persisted && location.reload());
start();
