import {session, link} from "./session.js"
import {feed} from "./feed.js"
import {h, fill, svg, button, definitions, panel, showTable, save, fail, toast, visible, format} from "./dom.js"
import {join, split} from "./keys.js"
import {readTable} from "./json.js"
import {indexFix, queryLink} from "./rules-index.js"
import {denialPanel} from "./denials.js"

const SECOND_MS = 1000
const SLOWER_MS = 2000 // between two looks at the lists
const SECONDS = 120 // of the plots
const PLOT = 44
const ROW_LIMIT = 15
const PATH_LIMIT = 500
const LOG_LIMIT = 500 // messages, as the server keeps them

// Metrics (operating.md): what is true now, or came in a second since the last look.
const metric = (stats, name) => stats.metrics[`pando_${name}`]
const sum = (stats, name) => metric(stats, name).reduce((total, {value}) => total + value, 0)
const milliseconds = value => (value ? value.toFixed(value < 10 ? 2 : 0) : "–")
const FORMATS = {
	...format, milliseconds, percent: value => `${(100 * value).toFixed(0)} %`,
	moment: value => value ? format.moment(1000 * value) : "none yet", answer: value => (value ? "yes" : "no"),
}
const SOURCES = {
	gauge: (now, before, seconds, name) => sum(now, name),
	rate: (now, before, seconds, name) => (sum(now, name) - sum(before, name)) / seconds,
	quantile(now, before, seconds, name, share) {
		const [{value: {count, buckets}}] = metric(now, name)
		const [{value: old}] = metric(before, name)
		const wanted = share * (count - old.count)
		let [lower, below] = [0, 0]
		for (const [bound, total] of wanted > 0 ? Object.entries(buckets).sort(([a], [b]) => a - b) : []) {
			const counted = total - old.buckets[bound]
			if (counted >= wanted) return 1000 * (lower + ((bound - lower) * (wanted - below)) / (counted - below));
			[lower, below] = [Number(bound), counted]
		}
		return 1000 * lower
	},
}
const {meters: METERS, state: STATE, lists: LISTS} = await readTable("meters")

const placeLink = (keys, namespace, orderBy, words = join(keys)) =>
	h("a", {href: orderBy ? queryLink(keys, {orderBy, limitToFirst: 50}, namespace) : link("data", keys, namespace)}, visible(words))

const meters = METERS.map(([label, formatName, ...sources]) => {
	const paths = sources.map(() => svg("path", {}))
	const number = h("b")
	const element = h(".panel.meter", h("h3", label), number, svg("svg", {viewBox: `0 0 ${SECONDS} ${PLOT}`, preserveAspectRatio: "none", "aria-hidden": true}, ...paths))
	return {format: FORMATS[formatName], sources, paths, number, element, values: sources.map(() => [])}
})
const state = h("span.hint", {role: "status"})
const facts = h("div")
const log = h("ol.writes.log", {tabIndex: 0, label: "Log"})
const paths = new Map()
let namespace, visit, before, lastMessage // visit: ends when the page is left

const fix = (keys, order, database) => ["no index: add ", indexFix(keys, order, database)]

const lists = [
	async () =>
		(await session.inspect("operations")).operations.slice(0, ROW_LIMIT).map(({seconds, total_seconds, worker, time, protocol, kind, database, path, location, order, indexed, count}) =>
			[milliseconds(1000 * seconds), milliseconds(1000 * total_seconds), format.moment(time), `${protocol} ${kind}${worker ? " (other thread)" : ""}`, database, location ? placeLink(split(location), database, order, path) : visible(path),
				visible(order ?? ""), format.count(count), indexed === false && location && order ? fix(split(location), order, database) : ""]),
	() =>
		[...paths.values()].sort((a, b) => b.millis - a.millis).slice(0, ROW_LIMIT).map(({keys, count, millis, bytes, order}) =>
			[placeLink(keys, namespace, order), format.count(count), millis.toFixed(2), format.bytes(bytes), order ? fix(keys, order) : ""]),
	async () =>
		(await session.inspect("connections", {sort: "queue", limit: ROW_LIMIT})).connections.map(one => [
			one.peer ?? "", one.transport.replace("_", " "), one.administrator ? "administrator" : visible(one.uid ?? "", 40),
			one.listens?.length ? [placeLink(split(one.listens[0]), one.database), one.listen_count > 1 && ` and ${format.count(one.listen_count - 1)} more`] : "",
			...[one.queue_bytes, one.memory_bytes, one.sent_bytes].map(format.bytes), ...[one.idle_seconds, one.age_seconds].map(format.span)]),
].map((rows, number) => {
	const [title, heads, empty] = LISTS[number]
	const content = h("div")
	return {element: panel(title, content), look: async () => showTable(content, heads, await rows(), empty)}
})
lists.unshift(denialPanel())

async function every(milliseconds, run) {
	const {signal} = visit
	while (!signal.aborted) {
		if (!document.hidden) await run().catch(error => (state.textContent = error.message))
		await new Promise(resolve => setTimeout(resolve, milliseconds))
	}
}

async function look() {
	const now = await session.inspect("stats")
	const seen = performance.now()
	if (before) drawMeters(now, before.stats, (seen - before.seen) / 1000)
	if (before?.stats.start_time !== now.start_time) {
		lastMessage = 0
		fill(log)
	}
	before = {stats: now, seen}
	const {version, durability, data, time, start_time: start} = now
	const server = Object.entries({version, "up for": format.span(time - start), durability, data: data ?? "in memory only"})
	fill(facts, definitions([...server, ...STATE.map(([words, formatName, name]) => [words, FORMATS[formatName](sum(now, name))])]))
	state.textContent = "live"
	const {messages} = await session.inspect("log", {after: lastMessage})
	if (messages.length) drawLog(messages)
}

function drawMeters(now, old, seconds) {
	for (const {format, sources, paths, number, values} of meters) {
		values.forEach((list, place) => {
			const [source, ...parameters] = sources[place]
			list.push(SOURCES[source](now, old, seconds, ...parameters))
			if (list.length > SECONDS) list.shift()
		})
		number.textContent = values.map(list => format(list.at(-1))).join(" · ")
		const most = Math.max(...values.flat(), Number.MIN_VALUE)
		values.forEach((list, place) =>
			paths[place].setAttribute("d", `M${list.map((value, second) => `${SECONDS - list.length + second} ${PLOT - 1 - (value / most) * (PLOT - 3)}`).join("L")}`))
	}
}

function drawLog(messages) {
	const isAtEnd = log.scrollTop + log.clientHeight >= log.scrollHeight - 4
	lastMessage = messages.at(-1).number
	log.append(...messages.map(({time, level, text}) => h("li", {class: `level-${level}`}, h("time", format.moment(time)), h("span.level", level), h("span.message", visible(text, 2000)))))
	while (log.childElementCount > LOG_LIMIT) log.firstChild.remove()
	if (isAtEnd) log.scrollTop = log.scrollHeight
}

const lookAtLists = () => Promise.all(lists.map(list => list.look()))

function take({path, name, millis = 0, bytes = 0, unIndexed, querySet}) {
	if (!path || name === "listener-broadcast") return
	const text = join(path)
	const entry = paths.get(text) ?? {keys: path, count: 0, millis: 0, bytes: 0}
	entry.count++
	entry.millis += millis
	entry.bytes += bytes
	paths.delete(text)
	paths.set(text, entry) // the latest is the last
	if (paths.size > PATH_LIMIT) paths.delete(paths.keys().next().value)
	if (unIndexed) entry.order = querySet?.[0]?.index?.path?.join("/") ?? querySet?.[0]?.orderBy
}

async function backup({currentTarget}) {
	currentTarget.disabled = true
	try {
		const response = await session.response("/.inspect/backup", {}, {asSelf: true})
		const name = /filename="([^"]+)"/.exec(response.headers.get("content-disposition"))?.[1] ?? "pando.backup"
		const blob = await response.blob()
		save(name, blob)
		toast(`Backup of ${format.bytes(blob.size)}. Check it with pando check backup.`)
	} catch (error) {
		fail(`No backup: ${error.message}`)
	}
	currentTarget.disabled = false
}

feed.on("records", records => records.forEach(take))
session.on("database", ofDatabase)
export const element = h(".page",
	h(".together", h("h2", "Server"), state, h("span.grow"), button("Backup now", backup)),
	h(".grid", meters.map(({element}) => element)), lists.map(({element}) => element), h(".columns", panel("State", facts), panel("Log", log)))

export function show() {
	visit?.abort()
	visit = new AbortController()
	before = undefined
	ofDatabase()
	every(SECOND_MS, look)
	every(SLOWER_MS, lookAtLists)
}

function ofDatabase() {
	if (namespace !== session.namespace) paths.clear()
	namespace = session.namespace
}

export const close = () => visit.abort()
