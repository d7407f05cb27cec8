// Light or dark: as the system has it, or as it was chosen.

const KEY = "pando-theme";
const root = document.documentElement;
if (localStorage.getItem(KEY)) root.dataset.theme = localStorage.getItem(KEY);

export const isDark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;

export function switchTheme() {
	root.dataset.theme = isDark() ? "light" : "dark";
	localStorage.setItem(KEY, root.dataset.theme);
}
