// Completion of rules: keys, variables, members.

const names = (text) => text.split(" ");
const KEYS = names(".read .write .validate .indexOn");
const VARIABLES = names("auth now root data newData query true false null");
const MEMBERS = [
	[/\bauth$/, names("uid token provider")],
	[/\bquery$/, names("orderByKey orderByChild orderByValue orderByPriority startAt endAt equalTo limitToFirst limitToLast")],
	[/(\b(root|data|newData|parent\(\))|child\([^()]*\))$/, names("val() exists() child( parent() hasChild( hasChildren() isString() isNumber() isBoolean() getPriority()")],
	[/(val\(\)|auth\.[\w.]+|\$\w+)$/, names("length contains( beginsWith( endsWith( replace( toLowerCase() toUpperCase() matches(/")],
];

/** What may stand at the end of a line: {typed, words}, `typed` being its part that is there already. */
export function completions(line, source) {
	const [typed] = /[\w$]*$/.exec(line);
	const owner = line.slice(0, line.length - typed.length);
	const isExpression = owner.replace(/\\./g, "").split('"').length % 2 === 0 && owner.includes(":");
	let words = [];
	if (/^\s*"\.$/.test(owner)) words = KEYS.map((word) => word.slice(1));
	else if (isExpression && owner.endsWith(".")) words = MEMBERS.find(([pattern]) => pattern.test(owner.slice(0, -1)))?.[1] ?? [];
	else if (isExpression && typed) words = [...VARIABLES, ...new Set(source.match(/\$\w+/g))];
	return { typed, words: words.filter((word) => word.startsWith(typed) && word !== typed) };
}
