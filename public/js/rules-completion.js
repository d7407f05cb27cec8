import {readTable} from "./json.js"

const {keys, variables, members} = await readTable("completions")

// What may stand at the end of a line: {typed, words}, `typed` being its part that is there already.
export function completions(line, source) {
	const [typed] = /[\w$]*$/.exec(line)
	const owner = line.slice(0, line.length - typed.length)
	const isExpression = owner.replace(/\\./g, "").split('"').length % 2 === 0 && owner.includes(":")
	let words = []
	if (/^\s*"\.$/.test(owner)) words = keys
	else if (isExpression && owner.endsWith(".")) words = members.find(([pattern]) => new RegExp(pattern).test(owner.slice(0, -1)))?.[1] ?? []
	else if (isExpression && typed) words = [...variables, ...new Set(source.match(/\$\w+/g))]
	return {typed, words: words.filter(word => word.startsWith(typed) && word !== typed)}
}
