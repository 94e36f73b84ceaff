// Light, dark, or as the system has it.

import { load, save } from "/web/store.js";

const THEMES = {
  system: { sign: "◐", name: "as the system" },
  light: { sign: "☀", name: "light" },
  dark: { sign: "☾", name: "dark" },
};

// Makes a button go through the themes.
export function themeSwitch(button) {
  let theme = load("theme", "system");
  if (!(theme in THEMES)) theme = "system";
  const show = () => {
    if (theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    const { sign, name } = THEMES[theme];
    button.textContent = sign;
    button.title = `Theme: ${name}`;
    button.setAttribute("aria-label", `Theme: ${name}`);
  };
  button.addEventListener("click", () => {
    const names = Object.keys(THEMES);
    theme = names[(names.indexOf(theme) + 1) % names.length];
    save("theme", theme === "system" ? undefined : theme);
    show();
  });
  show();
}
