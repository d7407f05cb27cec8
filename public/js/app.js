import {session, link, STORED} from "./session.js"
import {feed} from "./feed.js"
import {h, fill, button, iconButton, icon, dialog, formParts, switchTheme, visible, fail} from "./dom.js"
import {userField} from "./denials.js"
import * as data from "./page-data.js"

const PAGES = {data: "Data", query: "Query", history: "History", rules: "Rules", operations: "Operations"}
const IDLE_MS = 2000 // from the first view until the other pages are loaded
const STATES = {open: "live", connecting: "connecting…", waiting: "no connection; trying again"}
const LOOPBACK = /(^|\.)localhost$|^127\.[\d.]+$|^\[::1\]$/
const app = document.getElementById("app")

const isFor = name => session.isAdmin || !/history|rules|operations/.test(name)

function place() {
	const [path, rest = ""] = location.hash.replace(/^#\/?/, "").split("?")
	let name, namespace, keys = []
	try {
		[name, namespace, ...keys] = path.split("/").map(decodeURIComponent)
	} catch { /* no link of ours */ }
	return {name: Object.hasOwn(PAGES, name) && isFor(name) ? name : "data", namespace: namespace || null, keys: keys.filter(Boolean), parameters: Object.fromEntries(new URLSearchParams(rest))}
}

async function start() {
	session.namespace = place().namespace ?? new URLSearchParams(location.search).get("ns") ?? "default"
	const stored = sessionStorage.getItem(STORED)
	let refusal = ""
	// A --dev server takes the second, on this machine only.
	for (const credential of [stored, LOOPBACK.test(location.hostname) && "owner"].filter(Boolean)) {
		try {
			await session.signIn(credential)
			if (refusal) fail(`${refusal}: you are signed in as an administrator of --dev.`)
			return showFrame()
		} catch (error) {
			if (error.code === "offline") return showSignIn(error.message)
			if (credential !== stored) break
			refusal = `The token of this tab was refused (${visible(error.message)})`
			sessionStorage.removeItem(STORED)
		}
	}
	showSignIn(refusal)
}

function showSignIn(words = "") {
	const token = h("input", {type: "password", required: true, "aria-describedby": "sign-in-hint"})
	const kept = h("input", {type: "checkbox"})
	const signIn = () => session.signIn(token.value.trim(), kept.checked).catch(error => {
		token.select()
		return `Not signed in: ${error.message}`
	})
	const {problem, submit, onsubmit} = formParts("Sign in", signIn, showFrame)
	problem.textContent = words
	fill(app, h("main.gate", h("form.card", {onsubmit}, brand(), h("h2", "Sign in"),
		h("label", "Token or secret", token),
		h("p.hint", {id: "sign-in-hint"}, "An administrator's, as pando token --admin prints it, or a user's. It stays in this tab."),
		h("label.check", kept, "Keep it until the tab is closed"), problem, submit,
		h("p.hint", h("a", {href: "/docs"}, "Documentation")))))
	token.focus()
}

const brand = () => h("h1.brand", h("img", {src: "/favicon.svg", alt: "", width: 22, height: 22}), "Pando")

const links = Object.entries(PAGES).map(([name, label]) => ({name, element: h("a", label)}))
const databases = h("select", {id: "databases", label: "Database", onchange: () => (location.hash = link(place().name, [], databases.value))})
const stateElement = h("span.state", {id: "state", role: "status"})
const actorButton = button("", chooseActor, ".actor", {id: "actor", title: "Whose rights requests have"})
const main = h("main", {id: "main"})

function showFrame() {
	const skip = event => {
		event.preventDefault()
		main.querySelector("[tabindex='0'], input, textarea")?.focus()
	}
	const shown = links.filter(({name}) => isFor(name))
	fill(app,
		h("a.skip", {href: "#main", onclick: skip}, "Skip to the content"),
		h("header.bar", brand(), databases, h("nav", {label: "Pages"}, shown.map(({element}) => element), h("a", {href: "/docs", target: "_blank"}, "Docs")),
			h("span.grow"), stateElement, actorButton, iconButton("theme", "Light or dark", switchTheme)),
		main)
	databases.append(...(session.databases ?? []).map(({name}) => h("option", name)))
	session.on("state", showState)
	session.on("database", () => { showActor(); showPage() })
	session.on("selected", linkTo)
	addEventListener("hashchange", () => {
		for (const dialog of document.querySelectorAll("dialog")) dialog.close()
		showPage()
	})
	showState(session.database)
	showActor()
	showPage()
	// Where the server is gone they are there already.
	setTimeout(() => shown.slice(1).forEach(({name}) => load(name)), IDLE_MS)
}

const load = name => import(`./page-${name}.js`).catch(() => {})

// The pages' links lead to what is selected; that of the tree, to the tree that is kept.
function linkTo(keys) {
	for (const {element, name} of links) element.href = link(name, /rules|operations/.test(name) ? [] : name === "data" ? data.rootOf(keys) : keys)
}

function showState({state, error}) {
	stateElement.className = `state ${state}`
	const refusal = session.isActing ? "not accepted, run as another" : "signed out, reload to sign in"
	stateElement.textContent = error ? `${refusal}: ${visible(error.message)}` : STATES[state]
	if (state === "open" && isMissing) showPage()
}

function showActor() {
	const {isActing, actorName} = session
	fill(actorButton, icon("user"), h("span", isActing && "as ", visible(actorName, 24)))
	actorButton.classList.toggle("other", isActing)
}

async function chooseActor() {
	const {isAdmin} = session
	const field = userField([["self", `Yourself${isAdmin ? ": rules are not asked" : ""}`], ["anonymous", "Anonymous: not signed in"], ...(isAdmin ? [["user", "A user"]] : []), ["token", "The user of a token"]])
	field.show(session.actor)
	await dialog({
		title: "Run as", confirm: "Use", check: () => session.actAs(field.read()),
		body: [h("p.hint", "Data and Query show what this user may read."), field.element, h("p", button("Sign out", () => session.signOut(), ".link"))],
	})
}

let page // a module: {element, show(place), opened(), close()}
let wanted = 0
let isMissing = false
async function showPage() {
	const number = ++wanted
	const {name, namespace, keys} = place()
	if (namespace && namespace !== session.namespace) return session.use(namespace)
	const module = await load(name)
	if (number !== wanted) return
	isMissing = !module
	if (isMissing) return fail("The page is loaded when the server is back.")
	linkTo(keys)
	for (const {element, name: to} of links) element.ariaCurrent = to === name ? "page" : null
	databases.value = session.namespace
	if (databases.selectedIndex < 0) databases.append(h("option", {selected: true}, session.namespace))
	document.title = `${visible([PAGES[name], ...keys].join("/"))} · ${session.namespace} · Pando`
	const isOther = module !== page
	if (isOther) {
		page?.close()
		page = module
		fill(main, page.element)
	}
	page.show(place())
	if (isOther) page.opened?.()
}

// A page that is left keeps no connection.
addEventListener("pagehide", () => { session.database?.close(); feed.abort?.abort() })
addEventListener("pageshow", event => event.persisted && location.reload())
start()
